"""Does a compiled update do what PyTorch does? Compares them region by region, then over a trajectory.

    python -m stretto.check_update FILE.py:FUNCTION [--updates N]

FUNCTION returns the arguments of `check_update` as a dict: model, objective, optimizer, batches, and options.
What is off is named first where it begins: a region of the first update, or a tensor of the trajectory.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import itertools
import math
import os
import runpy
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .capture import split_inputs
from .check_regions import RegionCheck, check_regions
from .checks import ALLOWED_ERROR_RATIO, StaysFloat64
from .errors import UserError
from .objective import Objective, capture_objective
from .optimizers import Optimizer, as_optimizers
from .update import Update, compile_update
from .update_program import LossScale, Recipe, Tensors, export_update, initial_state, updated

# Of one update, where errors add up: in a gradient's sum, twice as much in its square, and in the parameter.
_ROUNDINGS = 4
# Adam divides a gradient by its own size. Where that is hardly more than roundings its sign is chance, and
# with it the parameter's way. Such elements are few, and the optimizer's state shows their gradients.
_STRAYING = 0.01
_FEW = 64


@dataclass(frozen=True)
class Deviation:
    """How far a tensor is from a float64 run after an update: relative L2 distances."""

    update: int
    name: str
    error: float  #: of the compiled update
    eager_error: float  #: of the same update run by PyTorch, operation by operation
    allowed: float

    @property
    def is_off(self) -> bool:
        """Is it further from float64 than eager's error and roundings explain?"""
        return not self.error <= self.allowed

    def __str__(self) -> str:
        return (
            f"update {self.update}: {self.name} is {self.error:.3g} from float64, "
            f"eager is {self.eager_error:.3g} ({self.allowed:.3g} is allowed)"
        )


@dataclass(frozen=True)
class UpdateCheck:
    """All tensors of all updates: the loss, and everything that lives between updates.

    `regions` are what the regions of the first update store (see stretto.check_regions).
    """

    deviations: tuple[Deviation, ...]
    regions: tuple[RegionCheck, ...]

    @property
    def first(self) -> Deviation | None:
        """The first tensor that is off, in the order in which an update computes; None if all is well."""
        return next((one for one in self.deviations if one.is_off), None)

    @property
    def first_region(self) -> RegionCheck | None:
        """The first region of the first update that is off; None if none is."""
        return next((one for one in self.regions if one.is_off), None)

    @property
    def worst(self) -> Deviation:
        """The tensor that comes closest to what is allowed, or exceeds it most."""
        return max(self.deviations, key=lambda one: one.error / one.allowed)


def check_update(
    model: torch.nn.Module,
    objective: Objective,
    *,
    optimizer: Optimizer | Sequence[Optimizer],
    batches: Iterable[Any],
    compute_dtype: torch.dtype | None = None,
    loss_scale: LossScale | None = None,
    average_decay: float | None = None,
    skip_non_finite: bool = False,
    seed: int = 0,
    **options: Any,
) -> UpdateCheck:
    """Runs `batches` through a compiled update, the same update in eager PyTorch, and in float64.

    The model stays as it is. A tensor may be 1.2 times as far from float64 as eager's is, and four roundings
    for each update; of parameters whose optimizer has a state, one element in a hundred may be further.
    `options` are backend, machine and numerics of `compile_update`, the other arguments are its own. Raises
    UserError as it does, and where there is no batch.
    """
    given = [split_inputs(batch) for batch in batches]
    if not given:
        raise UserError("there is no batch to check the update with")
    args, kwargs = given[0]
    trained = copy.deepcopy(model)
    update = compile_update(
        trained, objective, optimizer=optimizer, example=args or kwargs,
        compute_dtype=compute_dtype, loss_scale=loss_scale, average_decay=average_decay,
        skip_non_finite=skip_non_finite, seed=seed, **options,
    )  # fmt: skip
    recipe = Recipe(
        as_optimizers(optimizer),
        loss_scale=loss_scale,
        average_decay=average_decay,
        skip_non_finite=skip_non_finite,
    )
    regions = _regions(copy.deepcopy(model), objective, recipe, (args, kwargs), compute_dtype, seed, update)
    eager = _Eager(copy.deepcopy(model), objective, recipe, (args, kwargs), compute_dtype, seed)
    exact = _Eager(copy.deepcopy(model).double(), objective, recipe, _double((args, kwargs)), None, seed)
    deviations: list[Deviation] = []
    judged = _judged_by_state(update.state)
    for number, (args, kwargs) in enumerate(given):
        values = {"loss": update(*args, **kwargs)} | update.state
        eager_values = eager.run((args, kwargs))
        with StaysFloat64():
            exact_values = exact.run(_double((args, kwargs)))
        drift = max((one.eager_error for one in deviations), default=0.0)
        for name in _in_order(values):
            compared = (values[name], eager_values[name], exact_values[name])
            strays = name in judged
            deviations.append(_deviation(number, name, *compared, strays, drift))
    return UpdateCheck(tuple(deviations), tuple(regions))


def _regions(
    model: torch.nn.Module,
    objective: Objective,
    recipe: Recipe,
    batch: tuple[tuple[Any, ...], dict[str, Any]],
    compute_dtype: torch.dtype | None,
    seed: int,
    update: Update,
) -> list[RegionCheck]:
    """The first update's regions beside the operations that it was traced to."""
    captured = capture_objective(model, objective, *batch, compute_dtype)
    state = initial_state(captured, recipe, seed)
    program = export_update(captured, recipe, state, *batch)
    args, kwargs = batch
    return check_regions(
        update.step.region_values(*args, **kwargs), program, state, pytree.tree_leaves(batch)
    )


class _Eager:
    """The traced update's own functions, run by PyTorch on its own copy of everything."""

    def __init__(
        self,
        model: torch.nn.Module,
        objective: Objective,
        recipe: Recipe,
        example: tuple[tuple[Any, ...], dict[str, Any]],
        compute_dtype: torch.dtype | None,
        seed: int,
    ):
        self._recipe = recipe
        self._objective = capture_objective(model, objective, *example, compute_dtype)
        self._state = initial_state(self._objective, recipe, seed)

    def run(self, batch: Any) -> Tensors:
        results, new = updated(self._objective, self._recipe, self._state, pytree.tree_leaves(batch))
        self._state = self._state | {name: tensor.detach() for name, tensor in new.items()}
        return {"loss": results[0]} | self._state


def _in_order(values: Mapping[str, Tensor]) -> list[str]:
    """Losses come before optimizer state, which shows gradients, and that before parameters."""
    place = {"loss": 0, "optimizer": 1, "model": 2}
    return sorted(values, key=lambda name: place.get(name.split(".")[0], 3))


def _judged_by_state(state: Mapping[str, Tensor]) -> set[str]:
    """Parameters whose optimizer has a state, which shows their gradients."""
    kinds = (name.split(".", 2) for name in state if name.startswith("optimizer."))
    return {f"model.{parameter}" for _, _, parameter in kinds}


def _deviation(
    number: int, name: str, ours: Tensor, eager: Tensor, exact: Tensor, strays: bool, drift: float
) -> Deviation:
    """`drift` is eager's largest error in the updates before."""
    exact = exact.double()
    scale = exact.norm().item() or 1.0
    distances = (ours.double() - exact).abs().flatten()
    if strays:
        few = min(math.ceil(_STRAYING * distances.numel()), distances.numel() // 16)
        distances = distances.sort().values[: distances.numel() - few]
    error = distances.norm().item() / scale
    eager_error = (eager.double() - exact).norm().item() / scale
    rounding = _ROUNDINGS * torch.finfo(torch.float32).eps * (number + 1)
    # Errors of few elements do not average out: eager's own may be small by chance.
    expected = max(eager_error, drift) if exact.numel() < _FEW else eager_error
    return Deviation(number, name, error, eager_error, ALLOWED_ERROR_RATIO * expected + rounding)


def _double(batch: Any) -> Any:
    return pytree.tree_map(
        lambda leaf: leaf.double() if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf, batch
    )


def _described(where: str) -> dict[str, Any]:
    """The arguments of `check_update` that FILE.py:FUNCTION returns. Raises UserError where it does not."""
    path, _, function = where.partition(":")
    function = function or "check"
    if not os.path.isfile(path):
        raise UserError(f"{path}: there is no such file\n  pass FILE.py:FUNCTION")
    names = runpy.run_path(path)
    if not callable(names.get(function)):
        raise UserError(f"{path} has no function {function!r}\n  pass FILE.py:FUNCTION")
    described = names[function]()
    known = inspect.signature(check_update).parameters
    needed = [
        name for name, one in known.items() if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]
    given = described if isinstance(described, Mapping) else {}
    missing = [name for name in needed if name not in given]
    if missing:
        raise UserError(
            f"{function} of {path} must return a dict of check_update's arguments: "
            f"it has no {', '.join(missing)}"
        )
    return dict(described)


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks what a file describes; returns 1 where a tensor is off, 2 where it cannot be checked."""
    parser = argparse.ArgumentParser(
        prog="python -m stretto.check_update", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "where", metavar="FILE.py:FUNCTION", help="the function returns check_update's arguments"
    )
    parser.add_argument("--updates", type=int, default=5, help="length of the trajectory (default 5)")
    options = parser.parse_args(arguments)
    try:
        described = _described(options.where)
        described["batches"] = list(itertools.islice(described["batches"], options.updates))
        check = check_update(**described)
    except UserError as error:
        print(f"stretto: {error}", file=sys.stderr)
        return 2
    known = sum(one.operation is not None for one in check.regions)
    print(f"{known} of {len(check.regions)} tensors between regions are results of PyTorch's operations")
    off = [one for one in (check.first_region, check.first) if one is not None]
    for one in off:
        print(f"off: {one}")
    if not off:
        print(f"{options.updates} updates agree with PyTorch; closest to a limit: {check.worst}")
    return int(bool(off))


if __name__ == "__main__":
    sys.exit(main())
