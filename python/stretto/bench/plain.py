"""The same decoder written by hand for torch.compile: merged projections, a cache indexed in place.

It is the fastest form of the model that PyTorch users reach without kernels of their own: the baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from .shapes import Shape

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class PlainDecoder(nn.Module):
    """One decode step: `tokens` [batch, 1] at `position` [1] -> logits [batch, vocabulary]."""

    def __init__(self, model: PreTrainedModel, shape: Shape, batch: int, context: int):
        super().__init__()
        self.shape = shape
        self.embedding = model.model.embed_tokens
        self.layers = nn.ModuleList(_Layer(layer, shape, batch, context) for layer in model.model.layers)
        self.norm, self.epsilon = model.model.norm.weight, model.config.rms_norm_eps
        frequencies = model.model.rotary_emb.inv_freq.float()
        device = frequencies.device
        angles = torch.outer(torch.arange(context, device=device).float(), frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cosine", angles.cos().bfloat16())
        self.register_buffer("sine", angles.sin().bfloat16())
        self.register_buffer("columns", torch.arange(context, device=device))

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Logits of the next token."""
        x = self.embedding(tokens)
        cosine, sine = self.cosine[position], self.sine[position]
        mask = (self.columns <= position)[None, None, None]
        for layer in self.layers:
            x = layer(x, position, cosine, sine, mask, self.epsilon)
        return F.linear(_norm(x, self.norm, self.epsilon), self.embedding.weight)[:, -1]


class _Layer(nn.Module):
    def __init__(self, layer: nn.Module, shape: Shape, batch: int, context: int):
        super().__init__()
        self.shape = shape
        attention, feed_forward = layer.self_attn, layer.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.qkv = nn.Parameter(torch.cat([each.weight for each in projections]), requires_grad=False)
        biased = attention.q_proj.bias is not None
        bias = torch.cat([each.bias for each in projections]) if biased else None
        self.bias = nn.Parameter(bias, requires_grad=False) if biased else None
        self.output = attention.o_proj.weight
        gate_up = torch.cat([feed_forward.gate_proj.weight, feed_forward.up_proj.weight])
        self.gate_up = nn.Parameter(gate_up, requires_grad=False)
        self.down = feed_forward.down_proj.weight
        self.first_norm = layer.input_layernorm.weight
        self.second_norm = layer.post_attention_layernorm.weight
        cache = torch.zeros(
            batch, shape.key_heads, context, shape.head_size, dtype=torch.bfloat16, device=self.qkv.device
        )
        self.register_buffer("keys", cache)
        self.register_buffer("values", torch.zeros_like(cache))

    def forward(
        self,
        x: torch.Tensor,
        position: torch.Tensor,
        cosine: torch.Tensor,
        sine: torch.Tensor,
        mask: torch.Tensor,
        epsilon: float,
    ) -> torch.Tensor:
        shape, batch = self.shape, x.shape[0]
        sizes = [heads * shape.head_size for heads in (shape.heads, shape.key_heads, shape.key_heads)]
        query, key, value = F.linear(_norm(x, self.first_norm, epsilon), self.qkv, self.bias).split(sizes, -1)
        query, key, value = (
            each.view(batch, 1, -1, shape.head_size).transpose(1, 2) for each in (query, key, value)
        )
        self.keys[:, :, position] = _rotated(key, cosine, sine)
        self.values[:, :, position] = value
        mixed = F.scaled_dot_product_attention(
            _rotated(query, cosine, sine), self.keys, self.values, attn_mask=mask, enable_gqa=True
        )
        x = x + F.linear(mixed.transpose(1, 2).reshape(batch, 1, -1), self.output)
        gate, up = F.linear(_norm(x, self.second_norm, epsilon), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


def _norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)).to(x.dtype) * weight


def _rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine
