"""A whole training update as one functional program: loss, gradients, clipping, optimizer, averages.

Everything that lives between updates is a buffer of the exported module, under these names:

    model.NAME                the model's own parameters and buffers
    optimizer.STATE.NAME      state of the optimizer for parameter NAME
    settings.K.G.SETTING      setting of group G of optimizer K, float64
    sum.NAME, sum.loss, ...   gradients of the microbatches so far
    average.NAME              moving average of a parameter
    step, draws, seed         updates so far, launches so far (for dropout), key of random numbers
    scale, good_steps         loss scale, and updates since it changed
    turn, losses, norms       updates of this launch so far, their losses and norms (several in one launch)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from .assemble import assemble, leaf_names, traced
from .capture import first_line
from .errors import InputTypeError, UserError
from .model_tensors import listed
from .objective import CapturedObjective
from .optimizers import Optimizer, Settings, selects

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class LossScale:
    """Scales the loss so that small gradients survive a narrow type, as torch.amp.GradScaler does.

    An update whose loss or gradients are not finite changes nothing but the scale, which shrinks by
    `backoff`; after `interval` good ones it grows by `growth`.
    """

    initial: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000


@dataclass(frozen=True)
class Recipe:
    """What an update does, apart from model and batch."""

    optimizers: tuple[Optimizer, ...]
    accumulates: bool = False
    loss_scale: LossScale | None = None
    average_decay: float | None = None
    updates_per_launch: int = 1
    skip_non_finite: bool = False

    def __post_init__(self) -> None:
        if self.loss_scale is not None and not isinstance(self.loss_scale, LossScale):
            raise InputTypeError(
                f"loss_scale is a {type(self.loss_scale).__name__}\n  pass stretto.LossScale(initial=...)"
            )
        if self.average_decay is not None and not 0 <= self.average_decay < 1:
            raise UserError(f"average_decay is {self.average_decay}, it must be at least 0 and less than 1")
        if self.updates_per_launch < 1:
            raise UserError(f"updates_per_launch is {self.updates_per_launch}, it must be at least 1")

    @property
    def measures_norm(self) -> bool:
        """Does something ask for the norm of the gradients?"""
        return self.skips_non_finite or any(one.clip_norm is not None for one in self.optimizers)

    @property
    def skips_non_finite(self) -> bool:
        """Does an update that is not finite leave parameters and optimizer state as they are?"""
        return self.skip_non_finite or self.loss_scale is not None

    def assigned(self, parameters: Mapping[str, Tensor]) -> dict[str, tuple[int, int]]:
        """Optimizer and group of each parameter. Raises UserError where one has no optimizer."""
        found = {}
        for name, parameter in parameters.items():
            for number, optimizer in enumerate(self.optimizers):
                if optimizer.params is None or selects(optimizer.params, name, parameter):
                    found[name] = (number, optimizer.group_of(name, parameter))
                    break
            else:
                raise UserError(
                    f"no optimizer selects parameter {name!r}\n"
                    "  leave out params= in the last optimizer, or freeze it: parameter.requires_grad_(False)"
                )
        return found


def initial_state(objective: CapturedObjective, recipe: Recipe, seed: int) -> Tensors:
    """The tensors of the update by name. The model's are its own, without copies."""
    parameters = objective.parameters
    device = next(iter(parameters.values())).device if parameters else torch.device("cpu")

    def scalar(value: float, dtype: torch.dtype) -> Tensor:
        return torch.tensor(value, dtype=dtype, device=device)

    state = {f"model.{name}": p.detach() for name, p in parameters.items()}
    state |= {f"model.{name}": t for name, t in (*objective.frozen.items(), *objective.buffers.items())}
    for name, (number, _) in recipe.assigned(parameters).items():
        for kind in recipe.optimizers[number].states:
            state[f"optimizer.{kind}.{name}"] = torch.zeros_like(parameters[name])
    for number, optimizer in enumerate(recipe.optimizers):
        for group, settings in enumerate(optimizer.group_settings()):
            for key, value in settings.items():
                if not callable(value):
                    state[f"settings.{number}.{group}.{key}"] = scalar(value, torch.float64)
        if optimizer.clip_norm is not None and not callable(optimizer.clip_norm):
            state[f"settings.{number}.0.clip_norm"] = scalar(optimizer.clip_norm, torch.float64)
    if recipe.average_decay is not None:
        state |= {f"average.{name}": p.detach().clone() for name, p in parameters.items()}
    if recipe.accumulates:
        state |= {f"sum.{name}": torch.zeros_like(p) for name, p in parameters.items()}
        state |= {"sum.loss": scalar(0, torch.float32), "sum.weight": scalar(0, torch.float32)}
    if recipe.loss_scale is not None:
        state["scale"] = scalar(recipe.loss_scale.initial, torch.float32)
        state["good_steps"] = scalar(0, torch.int64)
    if recipe.updates_per_launch > 1:
        state["turn"] = scalar(0, torch.int64)
        for log in ("losses", "norms") if recipe.measures_norm else ("losses",):
            state[log] = torch.zeros(recipe.updates_per_launch, device=device)
    return state | {
        "step": scalar(0, torch.int64),
        "draws": scalar(0, torch.int64),
        "seed": scalar(seed, torch.int64),
    }


def export_update(
    objective: CapturedObjective,
    recipe: Recipe,
    state: Tensors,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    accumulate: bool = False,
) -> ExportedProgram:
    """The update as a program that returns (loss, norm of the gradients) and changes `state`.

    With `accumulate` it is the part for all microbatches but the last: gradients are added up, the model
    stays. Where a launch has several updates, (args, kwargs) hold a batch for each, stacked, and each run
    of the program takes the next one.
    """
    batch = pytree.tree_leaves((args, kwargs))
    positions = [at for at, leaf in enumerate(batch) if isinstance(leaf, Tensor)]
    names = list(state)
    changed: list[str] = []
    body = _accumulation if accumulate else updated

    def flat(*tensors: Tensor) -> list[Tensor]:
        values = dict(zip(names, tensors, strict=False))
        leaves = list(batch)
        for at, tensor in zip(positions, tensors[len(names) :], strict=True):
            leaves[at] = _taken(tensor, values["turn"]) if "turn" in values else tensor
        results, new = body(objective, recipe, values, leaves)
        changed[:] = new
        return [*results, *new.values()]

    operands = [tensor.detach() for tensor in state.values()] + [batch[at] for at in positions]
    inputs = leaf_names(objective.signature, args, kwargs)
    try:
        return assemble(traced(flat, operands), state, changed, args, kwargs, inputs)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"PyTorch cannot trace this update: {first_line(error)}\n"
            "  loss, gradients, schedules and optimizer must be one graph with static shapes, "
            "without branches on values"
        ) from error


def _taken(stacked: Tensor, turn: Tensor) -> Tensor:
    return stacked.index_select(0, turn[None]).squeeze(0)


def _gradients(
    objective: CapturedObjective, recipe: Recipe, values: Tensors, batch: Sequence[Any]
) -> tuple[Tensor, Tensor | None, Tensors, Tensors]:
    """(loss total, its divisor, gradients of the total times the loss scale, changed buffers)."""
    with torch.enable_grad():
        leaves = {name: values[f"model.{name}"].detach().requires_grad_() for name in objective.parameters}
        frozen = {name: values[f"model.{name}"] for name in objective.frozen}
        buffers = {name: values[f"model.{name}"].clone() for name in objective.buffers}
        versions = {name: tensor._version for name, tensor in buffers.items()}
        total, weight = objective(leaves | frozen | buffers, batch, values["draws"], values["seed"])
        total = total.reshape(())
        scaled = total * values["scale"].to(total.dtype) if recipe.loss_scale else total
        found: Sequence[Tensor | None] = [None] * len(leaves)
        if scaled.requires_grad:
            found = torch.autograd.grad(scaled, list(leaves.values()), allow_unused=True)
    missing = [name for name, gradient in zip(leaves, found, strict=True) if gradient is None]
    if missing:
        raise UserError(
            f"the loss does not depend on these parameters: {listed(missing)}\n"
            "  use them in the objective, or freeze them: parameter.requires_grad_(False)"
        )
    gradients = dict(zip(leaves, found, strict=True))
    changed = {f"model.{name}": t for name, t in buffers.items() if t._version != versions[name]}
    return _wide(total.detach()), None if weight is None else weight.reshape(()), gradients, changed


def _accumulation(
    objective: CapturedObjective, recipe: Recipe, values: Tensors, batch: Sequence[Any]
) -> tuple[list[Tensor], Tensors]:
    total, weight, gradients, changed = _gradients(objective, recipe, values, batch)
    changed |= {f"sum.{name}": values[f"sum.{name}"] + gradient for name, gradient in gradients.items()}
    changed["sum.loss"] = values["sum.loss"] + total
    changed["sum.weight"] = values["sum.weight"] + (1.0 if weight is None else weight)
    changed["draws"] = values["draws"] + 1
    return [total if weight is None else total / weight], changed


def updated(
    objective: CapturedObjective, recipe: Recipe, values: Tensors, batch: Sequence[Any]
) -> tuple[list[Tensor], Tensors]:
    """One update as plain tensor operations: (loss and norm if there is one, new values of the state)."""
    total, weight, gradients, buffers = _gradients(objective, recipe, values, batch)
    with torch.no_grad():
        emptied: Tensors = {}
        if recipe.accumulates:
            gradients = {name: values[f"sum.{name}"] + gradient for name, gradient in gradients.items()}
            total = values["sum.loss"] + total
            weight = values["sum.weight"] + (1.0 if weight is None else weight)
            emptied = {name: torch.zeros_like(t) for name, t in values.items() if name.startswith("sum.")}
        divisor = _divisor(weight, values["scale"] if recipe.loss_scale else None)
        if divisor is not None:
            gradients = {name: g / divisor.to(g.dtype) for name, g in gradients.items()}
        loss = total if weight is None else total / weight
        norm, new = _optimized(objective, recipe, values, gradients)
        new["step"] = values["step"] + 1
        new |= buffers
        if recipe.skips_non_finite:
            finite = norm.isfinite() & loss.isfinite()
            new = {name: torch.where(finite, tensor, values[name]) for name, tensor in new.items()}
            if recipe.loss_scale is not None:
                new |= _next_scale(recipe.loss_scale, values, finite)
        new["draws"] = values["draws"] + 1
        if recipe.updates_per_launch > 1:
            new["turn"] = (values["turn"] + 1) % recipe.updates_per_launch
            for log, value in (("losses", loss), ("norms", norm)):
                if log in values:
                    new[log] = values[log].index_copy(0, values["turn"][None], value.float()[None])
    results = [loss] if norm is None else [loss, norm]
    return results, new | emptied


def _divisor(weight: Tensor | None, scale: Tensor | None) -> Tensor | None:
    if weight is None or scale is None:
        return scale if weight is None else weight
    return weight * scale


def _optimized(
    objective: CapturedObjective, recipe: Recipe, values: Tensors, gradients: Tensors
) -> tuple[Tensor | None, Tensors]:
    """Norm of the gradients (None where nothing asks for it), and the new parameters, states and averages."""
    assigned = recipe.assigned(objective.parameters)
    settings = [_settings(optimizer, number, values) for number, optimizer in enumerate(recipe.optimizers)]
    squares = {name: _wide(g).square().sum() for name, g in gradients.items()} if recipe.measures_norm else {}
    new: Tensors = {}
    for number, optimizer in enumerate(recipe.optimizers):
        ours = [name for name, (of, _) in assigned.items() if of == number]
        factor = None
        if optimizer.clip_norm is not None and ours:
            largest = _setting(optimizer.clip_norm, f"settings.{number}.0.clip_norm", values).float()
            # As torch.nn.utils.clip_grad_norm_, which adds 1e-6 as well.
            factor = (largest / (_norm(squares, ours) + 1e-6)).clamp(max=1.0)
        for name in ours:
            p = values[f"model.{name}"]
            gradient = gradients[name].to(p.dtype)
            if factor is not None:
                gradient = gradient * factor.to(p.dtype)
            state = {kind: values[f"optimizer.{kind}.{name}"] for kind in optimizer.states}
            moved, state = optimizer.rule(p, gradient, state, settings[number][assigned[name][1]])
            new[f"model.{name}"] = moved
            new |= {f"optimizer.{kind}.{name}": tensor for kind, tensor in state.items()}
            if recipe.average_decay is not None:
                average = values[f"average.{name}"]
                new[f"average.{name}"] = average + (1 - recipe.average_decay) * (moved - average)
    return (_norm(squares, list(gradients)) if squares else None), new


def _wide(x: Tensor) -> Tensor:
    """At least float32, in which sums are kept."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _norm(squares: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    return torch.stack([squares[name] for name in names]).sum().sqrt()


def _settings(optimizer: Optimizer, number: int, values: Tensors) -> list[Settings]:
    """The settings of each group in this update."""
    groups = []
    for group, settings in enumerate(optimizer.group_settings()):
        known = {
            key: _setting(value, f"settings.{number}.{group}.{key}", values)
            for key, value in settings.items()
        }
        groups.append(Settings(values["step"] + 1, known, optimizer.options))
    return groups


def _setting(value: Any, name: str, values: Tensors) -> Tensor:
    if not callable(value):
        return values[name]
    scheduled = value(values["step"])
    if not isinstance(scheduled, Tensor):
        raise InputTypeError(
            f"the schedule of {name.split('.')[-1]!r} returned a {type(scheduled).__name__}\n"
            "  compute it from its argument with torch operations: a schedule runs on the device"
        )
    return scheduled.double()


def _next_scale(rule: LossScale, values: Tensors, finite: Tensor) -> Tensors:
    scale, good = values["scale"], values["good_steps"] + 1
    grows = good >= rule.interval
    grown = torch.where(grows, scale * rule.growth, scale)
    return {
        "scale": torch.where(finite, grown, scale * rule.backoff),
        "good_steps": torch.where(finite & ~grows, good, 0),
    }
