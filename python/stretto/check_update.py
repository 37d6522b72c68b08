"""Does a compiled update do what PyTorch does? Compares them region by region, then over a trajectory.

    python -m stretto.check_update FILE.py:FUNCTION [--updates N]

FUNCTION returns the arguments of `check_update` as a dict: model, objective, optimizer, batches, and options.
What is off is named first where it begins: a region of the first update, or a tensor of the trajectory.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
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
from .checks import ALLOWED_ERROR_RATIO
from .objective import Objective, capture_objective
from .optimizers import Optimizer, as_optimizers
from .update import Update, compile_update
from .update_program import Recipe, Tensors, export_update, initial_state, updated

# Of one update, where errors add up: in a gradient's sum, twice as much in its square, and in the parameter.
_ROUNDINGS = 4
# Adam divides a gradient by its own size. Where that is hardly more than roundings its sign is chance, and
# with it the parameter's way. Such elements are few, and the optimizer's state shows their gradients.
_STRAYING = 0.01


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
    seed: int = 0,
    **options: Any,
) -> UpdateCheck:
    """Runs `batches` through a compiled update, the same update in eager PyTorch, and in float64.

    The model stays as it is. A tensor may be 1.2 times as far from float64 as eager's is, and four roundings
    for each update; of parameters whose optimizer has a state, one element in a hundred may be further.
    `options` are backend, machine and numerics of `compile_update`.
    """
    given = [split_inputs(batch) for batch in batches]
    args, kwargs = given[0]
    trained = copy.deepcopy(model)
    update = compile_update(
        trained, objective, optimizer=optimizer, example=args or kwargs,
        compute_dtype=compute_dtype, seed=seed, **options,
    )  # fmt: skip
    recipe = Recipe(as_optimizers(optimizer))
    regions = _regions(copy.deepcopy(model), objective, recipe, (args, kwargs), compute_dtype, seed, update)
    eager = _Eager(copy.deepcopy(model), objective, recipe, (args, kwargs), compute_dtype, seed)
    exact = _Eager(copy.deepcopy(model).double(), objective, recipe, _double((args, kwargs)), None, seed)
    deviations = []
    judged = _judged_by_state(update.state)
    for number, (args, kwargs) in enumerate(given):
        values = {"loss": update(*args, **kwargs)} | update.state
        eager_values, exact_values = eager.run((args, kwargs)), exact.run(_double((args, kwargs)))
        for name in _in_order(values):
            compared = (values[name], eager_values[name], exact_values[name])
            strays = name in judged
            deviations.append(_deviation(number, name, *compared, strays))
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


def _deviation(number: int, name: str, ours: Tensor, eager: Tensor, exact: Tensor, strays: bool) -> Deviation:
    exact = exact.double()
    scale = exact.norm().item() or 1.0
    distances = (ours.double() - exact).abs().flatten()
    if strays:
        few = min(math.ceil(_STRAYING * distances.numel()), distances.numel() // 16)
        distances = distances.sort().values[: distances.numel() - few]
    error = distances.norm().item() / scale
    eager_error = (eager.double() - exact).norm().item() / scale
    rounding = _ROUNDINGS * torch.finfo(torch.float32).eps * (number + 1)
    return Deviation(number, name, error, eager_error, ALLOWED_ERROR_RATIO * eager_error + rounding)


def _double(batch: Any) -> Any:
    return pytree.tree_map(
        lambda leaf: leaf.double() if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf, batch
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks what a file describes; returns 1 where a tensor is off."""
    parser = argparse.ArgumentParser(
        prog="python -m stretto.check_update", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "where", metavar="FILE.py:FUNCTION", help="the function returns check_update's arguments"
    )
    parser.add_argument("--updates", type=int, default=5, help="length of the trajectory (default 5)")
    options = parser.parse_args(arguments)
    path, _, function = options.where.partition(":")
    described = runpy.run_path(path)[function or "check"]()
    described["batches"] = list(itertools.islice(described["batches"], options.updates))
    check = check_update(**described)
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
