"""Does each region of a program store what PyTorch computes?

A region fuses several operations; what it stores is, as a rule, the result of one of them. Each stored tensor
is compared with the results of all operations that have as many elements, as PyTorch computes them one by one
and in float64. What the compiler made of several operations (sums of parts, factors moved elsewhere) has no
counterpart, and is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from .checks import ALLOWED_ERROR_RATIO
from .step import RegionValue

# Two tensors that are further apart, relative to their size, are not meant to be the same.
_SAME = 0.1
# Of sums in another order.
_ROUNDINGS = 16
# Errors of fewer elements do not average out: PyTorch's own may be small by chance.
_FEW = 64


@dataclass(frozen=True)
class RegionCheck:
    """One stored tensor beside the operation whose result it is: relative L2 distances."""

    region: str
    operation: str | None  #: its name in the exported graph; None where PyTorch has no such tensor
    error: float = 0.0  #: distance from float64
    eager_error: float = 0.0  #: the same of PyTorch's own result
    allowed: float = 0.0

    @property
    def is_off(self) -> bool:
        """Is it meant to be the operation's result, but further from it than roundings explain?"""
        return self.operation is not None and not self.error <= self.allowed

    def __str__(self) -> str:
        if self.operation is None:
            return f"region {self.region} stores what no single operation of PyTorch computes"
        return (
            f"region {self.region} is {self.error:.3g} from {self.operation} in float64, "
            f"eager is {self.eager_error:.3g} ({self.allowed:.3g} is allowed)"
        )


def check_regions(
    stored: list[RegionValue], program: ExportedProgram, tensors: Mapping[str, Tensor], batch: list[Any]
) -> list[RegionCheck]:
    """Compares what a step stored (`Step.region_values`) with the operations of its exported program.

    `tensors` are the program's parameters and state by name, `batch` its inputs, both as before the run.
    """
    eager = _results(program, tensors, batch, wide=False)
    exact = _results(program, tensors, batch, wide=True)
    narrowest = max(torch.finfo(value.dtype).eps for value in eager.values())
    by_size: dict[int, list[str]] = {}
    for name, value in exact.items():
        by_size.setdefault(value.numel(), []).append(name)
    return [
        _compared(one, eager, exact, by_size.get(one.value.numel(), []), narrowest)
        for one in stored
        if one.value.is_floating_point()
    ]


def _compared(
    stored: RegionValue,
    eager: Mapping[str, Tensor],
    exact: Mapping[str, Tensor],
    names: list[str],
    narrowest: float,
) -> RegionCheck:
    ours = stored.value.double().flatten()
    rounding = _ROUNDINGS * torch.finfo(torch.float32).eps + torch.finfo(stored.value.dtype).eps
    if ours.numel() < _FEW:
        rounding += narrowest
    found = RegionCheck(stored.region, None)
    for order in (lambda x: x, lambda x: x.sort().values):  # as they lie, or whatever their layout
        distances = {name: _distance(order(ours), order(exact[name])) for name in names}
        closest = min(distances, key=distances.__getitem__, default=None)
        if closest is None or distances[closest] > _SAME:
            continue
        eager_error = _distance(order(eager[closest].double()), order(exact[closest]))
        allowed = ALLOWED_ERROR_RATIO * eager_error + rounding
        check = RegionCheck(stored.region, closest, distances[closest], eager_error, allowed)
        if not check.is_off:
            return check
        found = found if found.is_off else check
    return found


def _distance(left: Tensor, right: Tensor) -> float:
    """Relative to `right`; infinite where it is zero, which many tensors are at first."""
    size = right.norm().item()
    return (left - right).norm().item() / size if size > 0 else float("inf")


def _results(
    program: ExportedProgram, tensors: Mapping[str, Tensor], batch: list[Any], *, wide: bool
) -> dict[str, Tensor]:
    """The results of all operations with floating-point results, flat, by name."""
    inputs = []
    left = iter(batch)
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            value = next(left)
        else:
            value = tensors[spec.target] if spec.target in tensors else program.constants[spec.target]
        inputs.append(_wide(value) if wide else value)
    interpreter = _Keeping(program.graph_module, wide)
    with torch.no_grad():
        interpreter.run(*inputs)
    return interpreter.kept


class _Keeping(torch.fx.Interpreter):
    """Keeps what every operation returns. With `wide` it computes in float64."""

    def __init__(self, module: torch.fx.GraphModule, wide: bool):
        super().__init__(module)
        self._wide = wide
        self.kept: dict[str, Tensor] = {}

    def run_node(self, node: torch.fx.Node) -> Any:
        """One operation."""
        result = super().run_node(node)
        known = node.op == "call_function" and isinstance(result, Tensor) and result.is_floating_point()
        if known and result.numel() > 0:
            self.kept[node.name] = result.detach().flatten().cpu()
        return result

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """In float64 if it can be."""
        if not self._wide:
            return super().call_function(target, args, kwargs)
        try:
            result = super().call_function(target, *pytree.tree_map(_wide, (args, kwargs)))
        except (RuntimeError, NotImplementedError):  # grouped products, for one
            result = super().call_function(target, *pytree.tree_map(_narrow, (args, kwargs)))
        return pytree.tree_map(_wide, result)


def _narrow(value: Any) -> Any:
    floats = isinstance(value, Tensor) and value.is_floating_point()
    return value.bfloat16() if floats else value


def _wide(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
    return value
