"""The state of an update's optimizers in the format of torch.optim, which can go on from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .errors import UserError
from .optimizers import Optimizer
from .update_program import Recipe, Tensors


def optimizer_state(
    recipe: Recipe, parameters: Mapping[str, torch.nn.Parameter], state: Tensors
) -> list[dict[str, Any]]:
    """One torch.optim state_dict for each optimizer. Its tensors are the update's own."""
    found = []
    for number, optimizer in enumerate(recipe.optimizers):
        ours = _groups(recipe, parameters, number)
        layout = _layout(optimizer, number, ours, parameters, state)
        position = 0
        for group in ours:
            for name in group:
                layout["state"][position] = {
                    kind: state[f"optimizer.{kind}.{name}"] for kind in optimizer.states
                }
                if optimizer.states:
                    layout["state"][position]["step"] = state["step"].float()
                position += 1
        found.append(layout)
    return found


def load_optimizer_state(
    recipe: Recipe,
    parameters: Mapping[str, torch.nn.Parameter],
    state: Tensors,
    saved: Sequence[Mapping[str, Any]],
) -> Callable[[], None]:
    """Checks `saved` (see optimizer_state) and returns what copies it into the update."""
    if len(saved) != len(recipe.optimizers):
        raise UserError(f"the state has {len(saved)} optimizers, the update {len(recipe.optimizers)}")
    copies: list[tuple[Tensor, Any]] = []
    for number, (optimizer, one) in enumerate(zip(recipe.optimizers, saved, strict=True)):
        names = [name for group in _groups(recipe, parameters, number) for name in group]
        for position, name in enumerate(names):
            for kind in optimizer.states:
                target = state[f"optimizer.{kind}.{name}"]
                source = one["state"].get(position, {}).get(kind)
                if source is None or source.shape != target.shape:
                    raise UserError(
                        f"the optimizer's state has no {kind!r} of shape {tuple(target.shape)} "
                        f"for parameter {name!r}\n"
                        "  load a state of the same model and optimizer"
                    )
                copies.append((target, source))
        for group, settings in enumerate(one["param_groups"]):
            copies += _setting_copies(optimizer, number, group, settings, state)

    def apply() -> None:
        for target, source in copies:
            target.copy_(torch.as_tensor(source, dtype=target.dtype))

    return apply


def check_same_shapes(
    ours: Mapping[str, Any], saved: Mapping[str, Any], whose: str, *, some: bool = False
) -> None:
    """Raises UserError where `saved` has other tensors than `ours`, or, with `some`, than some of `ours`."""

    def shape(value: Any) -> Any:
        return tuple(value.shape) if isinstance(value, Tensor) else None

    names = saved.keys() if some else ours.keys() | saved.keys()
    wrong = [
        f"{name} {shape(saved[name])}" if name in saved else f"{name} (missing)"
        for name in sorted(names)
        if name not in ours or name not in saved or shape(ours[name]) != shape(saved[name])
    ]
    if wrong:
        raise UserError(
            f"the state does not fit {whose}: {', '.join(wrong[:8])}\n"
            "  load a state of the same model and optimizer"
        )


def _setting_copies(
    optimizer: Optimizer, number: int, group: int, saved: Mapping[str, Any], state: Tensors
) -> list[tuple[Tensor, Any]]:
    values = dict(saved)
    for key, parts in optimizer.torch_tuples.items():
        values.update(zip(parts, saved.get(key, ()), strict=False))
    targets = {key: state.get(f"settings.{number}.{group}.{key}") for key in optimizer.settings}
    return [(target, values[key]) for key, target in targets.items() if target is not None and key in values]


def _groups(recipe: Recipe, parameters: Mapping[str, torch.nn.Parameter], number: int) -> list[list[str]]:
    """The names of an optimizer's parameters by group; torch.optim counts them in this order."""
    groups: list[list[str]] = [[] for _ in recipe.optimizers[number].group_settings()]
    for name, (of, group) in recipe.assigned(parameters).items():
        if of == number:
            groups[group].append(name)
    return groups


def _layout(
    optimizer: Optimizer,
    number: int,
    groups: Sequence[Sequence[str]],
    parameters: Mapping[str, torch.nn.Parameter],
    state: Tensors,
) -> dict[str, Any]:
    """The state_dict of a fresh torch.optim optimizer with the present settings."""
    described = []
    for group, names in enumerate(groups):
        values = {key: _present(state, number, group, key) for key in optimizer.settings}
        values |= optimizer.options
        for key, parts in optimizer.torch_tuples.items():
            values[key] = tuple(values.pop(part) for part in parts)
        described.append({"params": [parameters[name] for name in names], **values})
    defaults = {key: value for key, value in described[0].items() if key != "params"}
    plain = optimizer.torch_class is torch.optim.Optimizer
    made = (
        torch.optim.Optimizer(described, defaults) if plain else optimizer.torch_class(described, **defaults)
    )
    return made.state_dict()


def _present(state: Tensors, number: int, group: int, key: str) -> float:
    """A setting's value; a schedule has none between updates, and shows as 0."""
    tensor = state.get(f"settings.{number}.{group}.{key}")
    return 0.0 if tensor is None else float(tensor)
