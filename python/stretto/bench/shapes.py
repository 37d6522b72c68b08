"""The models that are measured: published shapes, random weights (time does not depend on them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer with gated feed-forward layers and rotary positions."""

    family: str  #: of transformers: "llama" or "qwen2"
    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int

    @property
    def head_size(self) -> int:
        """Elements of one head."""
        return self.hidden // self.heads

    def weight_bytes(self) -> int:
        """BF16 weights that one token reads; the embedding is tied to the output layer."""
        attention = (2 * self.heads + 2 * self.key_heads) * self.head_size * self.hidden
        feed_forward = 3 * self.hidden * self.intermediate
        return 2 * (self.layers * (attention + feed_forward) + self.vocabulary * self.hidden)

    def cache_bytes(self, batch: int, context: int) -> int:
        """BF16 keys and values that one token reads at the last position of the context."""
        return 4 * batch * context * self.layers * self.key_heads * self.head_size


SHAPES = {
    "SmolLM2-135M": Shape("llama", 576, 1536, 30, 9, 3, 49152),
    "Qwen2.5-0.5B": Shape("qwen2", 896, 4864, 24, 14, 2, 151936),
    "Llama-3.2-1B": Shape("llama", 2048, 8192, 16, 32, 8, 128256),
    "SmolLM2-1.7B": Shape("llama", 2048, 8192, 24, 32, 32, 49152),
}


def random_model(shape: Shape, device: str) -> PreTrainedModel:
    """transformers' own model of this shape; the same weights in every process."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    config_type, model_type = {
        "llama": (LlamaConfig, LlamaForCausalLM),
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    }[shape.family]
    config = config_type(
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        vocab_size=shape.vocabulary,
        tie_word_embeddings=True,
        max_position_embeddings=65536,
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = model_type(config)
    finally:
        torch.set_default_dtype(before)
    return model.eval()
