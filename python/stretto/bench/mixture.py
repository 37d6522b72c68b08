"""TinyMoE-200M: the shape of a Mixtral of 12 layers with 16 experts, in plain modules."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class MixtureShape:
    """Sizes of a mixture-of-experts language model."""

    hidden: int = 384
    layers: int = 12
    heads: int = 8
    key_heads: int = 4
    head: int = 48
    width: int = 768
    experts: int = 16
    chosen: int = 2
    vocabulary: int = 32000
    context: int = 1024


class Experts(nn.Module):
    """Top-k experts of gated linear units, their rows sorted by expert for grouped products."""

    def __init__(self, shape: MixtureShape):
        super().__init__()
        self.shape = shape
        self.router = nn.Linear(shape.hidden, shape.experts, bias=False)
        self.up = nn.Parameter(torch.randn(shape.experts, shape.hidden, 2 * shape.width) * 0.02)
        self.down = nn.Parameter(torch.randn(shape.experts, shape.width, shape.hidden) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, length, hidden] to the same."""
        rows = x.reshape(-1, self.shape.hidden)
        weights, experts = self.router(rows).float().softmax(-1).topk(self.shape.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        expert_of = experts.reshape(-1)
        order = expert_of.argsort(stable=True)
        token_of = order // self.shape.chosen
        counts = torch.zeros(self.shape.experts, device=x.device, dtype=torch.int32)
        counts = counts.scatter_add_(0, expert_of, torch.ones_like(expert_of, dtype=torch.int32))
        ends = counts.cumsum(0).to(torch.int32)
        kind = torch.bfloat16  # what grouped products take
        both = torch._grouped_mm(rows[token_of].to(kind), self.up.to(kind), offs=ends)
        gate, up = both.chunk(2, -1)
        found = torch._grouped_mm(F.silu(gate) * up, self.down.to(kind), offs=ends)
        found = found * weights.reshape(-1)[order].unsqueeze(-1).to(found.dtype)
        total = torch.zeros_like(rows, dtype=found.dtype).index_add(0, token_of, found)
        return total.view(x.shape)


class MixtureLayer(nn.Module):
    """Attention with grouped heads and rotary positions, and experts."""

    def __init__(self, shape: MixtureShape):
        super().__init__()
        self.shape = shape
        self.before_attention = nn.RMSNorm(shape.hidden)
        self.before_experts = nn.RMSNorm(shape.hidden)
        self.qkv = nn.Linear(shape.hidden, (shape.heads + 2 * shape.key_heads) * shape.head, bias=False)
        self.out = nn.Linear(shape.heads * shape.head, shape.hidden, bias=False)
        self.experts = Experts(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[batch, length, hidden] to the same; cos and sin are [length, head]."""
        s = self.shape
        batch, length, _ = x.shape
        keys = s.key_heads * s.head
        q, k, v = self.qkv(self.before_attention(x)).split([s.heads * s.head, keys, keys], -1)

        def rotated(z: Tensor) -> Tensor:
            first, second = z.chunk(2, -1)
            return z * cos + torch.cat((-second, first), -1) * sin

        q = rotated(q.view(batch, length, s.heads, s.head).transpose(1, 2))
        k = rotated(k.view(batch, length, s.key_heads, s.head).transpose(1, 2))
        v = v.view(batch, length, s.key_heads, s.head).transpose(1, 2)
        k, v = (z.repeat_interleave(s.heads // s.key_heads, 1) for z in (k, v))
        mixed = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        return x + self.experts(self.before_experts(x))


class Mixture(nn.Module):
    """A language model whose feed-forward parts are mixtures of experts."""

    def __init__(self, shape: MixtureShape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(MixtureLayer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        frequencies = 1 / 10000 ** (torch.arange(0, shape.head, 2).float() / shape.head)
        angles = torch.outer(torch.arange(shape.context).float(), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos().bfloat16())
        self.register_buffer("sin", angles.sin().bfloat16())

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, length, vocabulary]."""
        x = self.embedding(tokens)
        length = tokens.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        return self.head(self.norm(x))


def mixture_loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of the targets."""
    logits = model(tokens)
    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))


def mixture_operations(shape: MixtureShape, batch: int, length: int) -> float:
    """Of the products of one update."""
    projections = shape.hidden * shape.head * 2 * (shape.heads + shape.key_heads)
    experts = shape.chosen * 3 * shape.hidden * shape.width + shape.hidden * shape.experts
    attention = length * shape.heads * shape.head  # causal: half of the positions, two products
    each = shape.layers * (projections + experts + attention) + shape.hidden * shape.vocabulary
    return 6.0 * batch * length * each
