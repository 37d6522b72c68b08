"""A model and its objective as a function of parameters that PyTorch can differentiate while it is traced."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from .capture import trace
from .errors import UserError
from .philox import philox, philox_2x32

Objective = Callable[..., Any]


@dataclass(frozen=True)
class CapturedObjective:
    """The objective as a graph of tensors. `sources` names the model's tensor behind each input, None for
    the batch's.

    Tensors that the model holds under several names (tied weights) have one name here, the first.
    """

    program: ExportedProgram
    sources: tuple[str | None, ...]
    parameters: Mapping[str, torch.nn.Parameter]  #: those that are trained
    frozen: Mapping[str, Tensor]  #: parameters that are not
    buffers: Mapping[str, Tensor]  #: buffers and constants that the objective reads or changes
    signature: inspect.Signature  #: of the objective without the model

    def __call__(
        self, tensors: Mapping[str, Tensor], batch: Sequence[Any], draws: Tensor, seed: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The total loss, and what it has to be divided by (None for 1). Buffers in `tensors` change in
        place.

        `draws` and `seed` choose the random numbers of dropout.
        """
        leaves = iter(batch)
        inputs = [next(leaves) if source is None else tensors[source] for source in self.sources]
        with _Composites(draws, seed):
            results = self.program.graph_module(*inputs)
        return results[0], results[1] if len(results) > 1 else None


def capture_objective(
    model: torch.nn.Module,
    objective: Objective,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    compute_dtype: torch.dtype | None = None,
) -> CapturedObjective:
    """Exports `objective(model, *args, **kwargs)` with parameters and batch rounded to `compute_dtype`, if
    given.

    Raises UserError where it gives no loss.
    """
    module = _Computed(model, objective, compute_dtype)
    program = trace(module, args, kwargs, gradients=True)
    _check_results(program)
    names = _canonical_names(model)
    held = {f"loss.model.{name}": tensor for name, tensor in _named_tensors(model)}
    sources: list[str | None] = []
    frozen: dict[str, Tensor] = {}
    buffers: dict[str, Tensor] = {}
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            sources.append(None)
            continue
        tensor = held.get(spec.target)
        name = spec.target if tensor is None else names[id(tensor)]
        if tensor is None:
            tensor = program.constants[spec.target]
        sources.append(name)
        if name not in trained:
            kind = frozen if isinstance(tensor, torch.nn.Parameter) else buffers
            kind[name] = tensor.detach()
    return CapturedObjective(
        program, tuple(sources), trained, frozen, buffers, inspect.signature(module.forward)
    )


class _Loss(torch.nn.Module):
    """The objective as a module."""

    def __init__(self, model: torch.nn.Module, objective: Objective):
        super().__init__()
        self.model = model
        self.training = model.training
        self._objective = objective

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._objective(self.model, *args, **kwargs)


class _Computed(torch.nn.Module):
    """The objective with parameters and floating-point inputs in the type of the computation.

    Buffers keep their own: statistics and tables of angles need it.
    """

    def __init__(self, model: torch.nn.Module, objective: Objective, dtype: torch.dtype | None):
        super().__init__()
        self.loss = _Loss(model, objective)
        self.training = model.training

        def forward(*args: Any, **kwargs: Any) -> Any:
            if dtype is None:
                return self.loss(*args, **kwargs)
            parameters = {name: _as_type(p, dtype) for name, p in self.loss.named_parameters()}
            args, kwargs = pytree.tree_map(lambda leaf: _as_type(leaf, dtype), (args, kwargs))
            return torch.func.functional_call(self.loss, parameters, args, kwargs)

        # torch.export names inputs after forward's parameters.
        parameters = list(inspect.signature(objective).parameters.values())[1:]
        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self.forward = forward


def _as_type(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def _named_tensors(model: torch.nn.Module) -> list[tuple[str, Tensor]]:
    return [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]


def _canonical_names(model: torch.nn.Module) -> dict[int, str]:
    names: dict[int, str] = {}
    for name, tensor in _named_tensors(model):
        names.setdefault(id(tensor), name)
    return names


def _check_results(program: ExportedProgram) -> None:
    results = [node.meta.get("val") for node in program.graph.output_node().args[0]]
    loss = results[0] if results else None
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.is_floating_point():
        raise UserError(
            f"the objective must return its loss, a float tensor of one element, not {_described(loss)}\n"
            "  return the mean of the losses, or their sum and what to divide it by: (total, count)"
        )
    if len(results) > 2 or (
        len(results) == 2 and (not isinstance(results[1], Tensor) or results[1].numel() != 1)
    ):
        raise UserError(
            f"the objective returns {len(results)} results\n"
            "  it may return the loss, or two tensors of one element: a sum and what to divide it by"
        )


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype} and shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


class _Composites(TorchFunctionMode):
    """Operations whose usual kernels hide what the compiler should see, in terms of plain ones."""

    def __init__(self, draws: Tensor, seed: Tensor):
        super().__init__()
        self._draws = draws
        self._seed = seed
        self._sites = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.ops.aten.scaled_dot_product_attention.default:
            return self._attention(*args, **kwargs)
        if function is torch.ops.aten.dropout.default:
            x, p, train = args
            return self._dropout(x, p) if train else x
        if function is torch.ops.aten.batch_norm.default:
            return _batch_norm(*args)
        return function(*args, **kwargs)

    def _dropout(self, x: Tensor, p: float) -> Tensor:
        """Drops elements by a number for each element, each place in the model and each run."""
        if p == 0:
            return x
        site = torch.full_like(self._draws, self._sites)
        self._sites += 1
        # The scalars are mixed once; an element takes as few steps as numbers that look independent allow.
        key, counter = (philox(self._draws, site, torch.full_like(site, word), self._seed) for word in (0, 1))
        element = torch.arange(x.numel(), device=x.device).reshape(x.shape)
        kept = philox_2x32(element, counter, key) >= round(p * 2**32)
        return torch.where(kept, x * (1 / (1 - p) if p < 1 else 0.0), torch.zeros_like(x))

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Products and a softmax in float32, whose derivatives are products again."""
        if enable_gqa:
            key, value = (_spread(x, query.shape[-3]) for x in (key, value))
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        scores = torch.matmul(query, key.transpose(-2, -1)) * scale
        if is_causal:
            rows = torch.arange(scores.shape[-2], device=query.device)
            attn_mask = torch.arange(scores.shape[-1], device=query.device) <= rows[:, None]
        wide = torch.promote_types(scores.dtype, torch.float32)
        scores = scores.to(wide)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = torch.where(attn_mask, scores, torch.finfo(wide).min)
        elif attn_mask is not None:
            scores = scores + attn_mask
        weights = torch.softmax(scores, dim=-1).to(query.dtype)
        return torch.matmul(self._dropout(weights, dropout_p), value)


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    _cudnn_enabled: bool,
) -> Tensor:
    """Normalizes channels (dimension 1). In training the running statistics change in place."""
    wide = torch.promote_types(x.dtype, torch.float32)
    over = [dim for dim in range(x.dim()) if dim != 1]
    shape = [1, -1] + [1] * (x.dim() - 2)
    if training:
        mean = x.to(wide).mean(over)
        var = (x.to(wide) - mean.reshape(shape)).square().mean(over)
    else:
        mean, var = running_mean, running_var
    if training and running_mean is not None:
        count = x.numel() // x.shape[1]
        with torch.no_grad():
            running_mean.copy_((1 - momentum) * running_mean + momentum * mean)
            running_var.copy_((1 - momentum) * running_var + momentum * (var * (count / (count - 1))))
    out = (x.to(wide) - mean.reshape(shape)) * (var + eps).rsqrt().reshape(shape)
    if weight is not None:
        out = out * weight.reshape(shape)
    if bias is not None:
        out = out + bias.reshape(shape)
    return out.to(x.dtype)


def _spread(x: Tensor, heads: int) -> Tensor:
    """Key or value heads, each for as many neighbouring query heads as share it."""
    shared = heads // x.shape[-3]
    return x.unsqueeze(-3).expand(*x.shape[:-2], shared, *x.shape[-2:]).flatten(-4, -3)
