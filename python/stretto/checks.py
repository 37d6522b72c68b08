"""How exact a decode step is, measured against a float64 run of the same model.

The yardstick is PyTorch's own error: the same model, the same tokens, run eagerly in its own dtype.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .step import Step

# How much further from the float64 run than eager PyTorch a step may be.
ALLOWED_ERROR_RATIO = 1.2


@dataclass(frozen=True)
class Accuracy:
    """Sequences, compared at every position. Errors are relative L2 distances of logits from float64."""

    step_error: float  #: worst position of the compiled step
    eager_error: float  #: worst position of eager PyTorch
    step_mean_error: float
    eager_mean_error: float
    positions: int
    clear_tokens: int  #: positions where eager's best two logits are further apart than errors can move
    different_tokens: tuple[int, ...]  #: those of them where the step prefers another token

    @property
    def ratio(self) -> float:
        """The step's error over eager's."""
        return self.step_error / self.eager_error if self.eager_error else float("inf")

    def faults(self) -> list[str]:
        """What is wrong, in words; empty where the step is as exact as eager PyTorch."""
        found = []
        if not self.ratio <= ALLOWED_ERROR_RATIO:
            found.append(
                f"logits are {self.step_error:.3g} from float64, eager is {self.eager_error:.3g} "
                f"({self.ratio:.2f} times as far, {ALLOWED_ERROR_RATIO} is allowed)"
            )
        if not self.step_mean_error <= ALLOWED_ERROR_RATIO * self.eager_mean_error:
            found.append(
                f"logits are {self.step_mean_error:.3g} from float64 on average, "
                f"eager is {self.eager_mean_error:.3g}"
            )
        if self.different_tokens:
            found.append(
                f"tokens differ at positions {list(self.different_tokens)}, where eager is sure of its own"
            )
        return found


def decode_logits(step: Step, tokens: torch.Tensor) -> torch.Tensor:
    """Logits [batch, length, vocabulary] of a decode step given `tokens` [batch, length] one by one."""
    rows = []
    position = torch.zeros(1, dtype=torch.long, device=tokens.device)
    for at in range(tokens.shape[1]):
        rows.append(step(input_ids=tokens[:, at : at + 1], cache_position=position)[:, -1])
        position += 1
    return torch.stack(rows, dim=1)


def eager_logits(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """The same with the model itself and transformers' cache, token by token, as a user would decode."""
    rows = []
    cache = None
    with torch.no_grad():
        for at in range(tokens.shape[1]):
            result = model(input_ids=tokens[:, at : at + 1], past_key_values=cache, use_cache=True)
            cache = result.past_key_values
            rows.append(result.logits[:, -1])
    return torch.stack(rows, dim=1)


class StaysFloat64(TorchDispatchMode):
    """Float64 stays float64 where a model, an objective or an optimizer rounds to a narrower type."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operation, to float64 where it is a conversion to any other float."""
        kwargs = dict(kwargs or {})
        dtype = kwargs.get("dtype")
        if function is torch.ops.aten._to_copy.default and dtype is not None and dtype.is_floating_point:
            kwargs["dtype"] = torch.float64
        return function(*args, **kwargs)


def float64_logits(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """The reference: all positions in one pass, in float64."""
    with torch.no_grad(), StaysFloat64():
        return copy.deepcopy(model).double()(input_ids=tokens).logits


def compare(step: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> Accuracy:
    """Compares logits [batch, length, vocabulary] at every position."""
    step, eager = step.double(), eager.double()
    scale = reference.norm(dim=-1)
    step_errors = (step - reference).norm(dim=-1) / scale
    eager_errors = (eager - reference).norm(dim=-1) / scale
    tokens, clear = clear_tokens(eager, reference)
    different = clear & (step.argmax(dim=-1) != tokens)
    return Accuracy(
        step_error=_worst(step_errors),
        eager_error=_worst(eager_errors),
        step_mean_error=step_errors.mean().item(),
        eager_mean_error=eager_errors.mean().item(),
        positions=step_errors.numel(),
        clear_tokens=int(clear.sum()),
        different_tokens=tuple(different.nonzero()[:, 1].tolist()),
    )


def clear_tokens(eager: torch.Tensor, reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eager's tokens [batch, length], and where it is sure of them, from logits of eager and in float64."""
    best = eager.double().topk(2, dim=-1)
    margins = best.values[..., 0] - best.values[..., 1]
    # Each of the two logits may be off by the largest error, so their order is sure from twice that on.
    return best.indices[..., 0], margins > 2 * (eager.double() - reference).abs().amax(dim=-1)


def decode_accuracy(model: torch.nn.Module, step: Step, tokens: torch.Tensor) -> Accuracy:
    """Runs `tokens` through the step, eager PyTorch and float64, and compares their logits."""
    return compare(decode_logits(step, tokens), eager_logits(model, tokens), float64_logits(model, tokens))


def _worst(errors: torch.Tensor) -> float:
    # max() passes NaN on, so that a step which yields NaN cannot look exact.
    return errors.max().item()
