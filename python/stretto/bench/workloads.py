"""Training updates to measure: model, objective, optimizer and batch, with random weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import stretto

from .mixture import Mixture, MixtureShape, mixture_loss, mixture_operations
from .online import LastBlock, step_loss, step_operations, steps_of

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel

Objective = Callable[..., Tensor]

UPDATES_OF_A_LAUNCH = 16  #: where updates do not follow a sequence


@dataclass(frozen=True)
class Rule:
    """An optimizer, as Stretto has it (made with a norm to clip to) and as PyTorch has it (of parameters)."""

    ours: Callable[[float | None], stretto.Optimizer]
    theirs: Callable[[list[nn.Parameter]], torch.optim.Optimizer]


def _fused_adamw(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    device = parameters[0].device
    rate = torch.tensor(1e-4, device=device)
    return torch.optim.AdamW(parameters, lr=rate, fused=True, capturable=device.type == "cuda")


ADAMW = Rule(lambda norm: stretto.AdamW(lr=1e-4, clip_norm=norm), _fused_adamw)


def descent(rate: float) -> Rule:
    """Plain gradient descent."""
    return Rule(
        lambda norm: stretto.SGD(lr=rate, clip_norm=norm),
        lambda parameters: torch.optim.SGD(parameters, lr=rate, fused=True),
    )


@dataclass(frozen=True)
class Workload:
    """One update. Models and batches are made on a device; parameters that are trained are F32."""

    name: str
    tokens: int  #: positions, or samples, of one update
    model: Callable[[str], nn.Module]
    objective: Objective
    batch: Callable[
        [str], tuple[Tensor, ...]
    ]  #: of an update, or of all `steps` of a sequence, stacked in front
    operations: float  #: multiplications and additions of one update's products
    compute: torch.dtype = torch.bfloat16  #: of forward and backward
    clip_norm: float | None = None
    rule: Rule = ADAMW
    steps: int | None = None  #: of a sequence, one after the other; None: every update takes the same batch

    @property
    def updates_of_a_launch(self) -> int:
        """How many systems do that take several at once."""
        return self.steps or UPDATES_OF_A_LAUNCH

    def samples(self, device: str) -> list[tuple[Tensor, ...]]:
        """What the updates take in turn, each with memory of its own."""
        batch = self.batch(device)
        if self.steps is None:
            return [batch]
        return [tuple(part[step].clone() for part in batch) for step in range(self.steps)]

    def stacked(self, device: str) -> tuple[Tensor, ...]:
        """What the updates of one launch take, stacked in front."""
        batch = self.batch(device)
        if self.steps is not None:
            return batch
        return tuple(part.expand(UPDATES_OF_A_LAUNCH, *part.shape).contiguous() for part in batch)


def _seeded(module: Callable[[], nn.Module]) -> Callable[[str], nn.Module]:
    def make(device: str) -> nn.Module:
        torch.manual_seed(0)
        return module().to(device)

    return make


def _tokens(vocabulary: int, batch: int, length: int) -> Callable[[str], tuple[Tensor, ...]]:
    def make(device: str) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(1)
        shape = (batch, length)
        return tuple(torch.randint(0, vocabulary, shape, generator=generator).to(device) for _ in range(2))

    return make


# ---- MLP


def _mlp() -> nn.Module:
    layers = [nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)]
    return nn.Sequential(*layers)


def _vectors(device: str) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(64, 256, generator=generator).to(device) for _ in range(2))


def _squared_error(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(model(x), y)


# ---- GPT-2 small


def gpt2(**sizes: int) -> GPT2LMHeadModel:
    """transformers' model with random weights; sizes that are not given are GPT-2 small's."""
    from transformers import GPT2Config, GPT2LMHeadModel

    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    special = {"bos_token_id": None, "eos_token_id": None}
    config = GPT2Config(attn_implementation="sdpa", use_cache=False, **special, **rates, **sizes)
    return GPT2LMHeadModel(config)


def _gpt2_loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    logits = model(input_ids=tokens, use_cache=False).logits
    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))


# ---- GPT-2's last block, adapted online

DIFFERENT_TOKENS = 64  #: in a sequence to adapt to: few, so that there is something to learn


def online(
    name: str, *, vocabulary: int = 50257, hidden: int = 768, length: int = 1024, **sizes: int
) -> Workload:
    """The workload of `stretto.bench.online` for a GPT-2 with random weights and a sequence of random
    tokens; other `sizes` are those of transformers' GPT2Config, by default GPT-2 small's.
    """
    sizes |= {"vocab_size": vocabulary, "n_embd": hidden, "n_positions": length}
    make = _seeded(lambda: gpt2(**sizes).eval())

    @functools.cache  # the frozen blocks take a while to make
    def batch(device: str) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(1)
        known = torch.randint(0, vocabulary, (DIFFERENT_TOKENS,), generator=generator)
        tokens = known[torch.randint(0, DIFFERENT_TOKENS, (length + 1,), generator=generator)]
        return steps_of(make(device), tokens.to(device))

    return Workload(
        name,
        1,
        lambda device: LastBlock(make(device)),
        step_loss,
        batch,
        step_operations(hidden, vocabulary, length),
        compute=torch.float32,
        rule=descent(1e-2),
        steps=length,
    )


# ---- TinyMoE-200M


def _mixture(batch: int) -> Workload:
    shape = MixtureShape()
    return Workload(
        f"TinyMoE-200M, {batch} x {shape.context}",
        batch * shape.context,
        _seeded(lambda: Mixture(shape)),
        mixture_loss,
        _tokens(shape.vocabulary, batch, shape.context),
        mixture_operations(shape, batch, shape.context),
        clip_norm=1.0,
    )


WORKLOADS = {
    "mlp": Workload(
        "MLP 3 x 256, batch 64",
        64,
        _seeded(_mlp),
        _squared_error,
        _vectors,
        6.0 * 64 * 3 * 256 * 256,
        compute=torch.float32,
    ),
    "gpt2": Workload(
        "GPT-2 small, 1 x 1024",
        1024,
        _seeded(gpt2),
        _gpt2_loss,
        _tokens(50257, 1, 1024),
        6.0 * 1024 * (12 * (12 * 768 * 768 + 1024 * 768) + 768 * 50257),
    ),
    "tinymoe": _mixture(2),
    "tinymoe8": _mixture(8),
    "online": online("GPT-2 small's last block online, 1024 steps"),
}
