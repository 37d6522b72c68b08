"""Online adaptation: the last block of a GPT-2 predicts the tokens of a sequence one after the other, and
learns from each before it predicts the next.

What a step does. It gets one position's hidden state from the frozen blocks, which do not depend on what is
learned, so that all of them are computed before. The last block attends to the keys and values of the
earlier steps, as their weights of the time made them; the final norm and the head over the whole vocabulary,
both frozen, give the prediction. The cross entropy of the token that really follows is the step's loss,
known before it learns. Its gradient with respect to the block's parameters, through the step's own key and
value but not through earlier ones, updates them by plain gradient descent (Krause et al., "Dynamic
evaluation of neural sequence models", 2018).

So a step is a matrix-vector product with every weight of the block, forward and backward, and two with the
head, and each step needs the weights that the step before left. The block's weights are F32, since a step
changes them by less than bf16 resolves. The head only ever is read: it is bf16, and so is its product, like
that of a served model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel


class LastBlock(nn.Module):
    """Frozen norm and head of `model` behind its last block, which alone is trained, with a cache of keys
    and values for the sequence. It takes these parts over: they are those of `model`, except for the
    head.
    """

    def __init__(self, model: GPT2LMHeadModel):
        super().__init__()
        config = model.config
        model.requires_grad_(False)
        self.block = model.transformer.h[-1].requires_grad_(True)
        self.norm = model.transformer.ln_f
        self.head = nn.Parameter(model.lm_head.weight.detach().bfloat16(), requires_grad=False)
        self.heads = config.n_head
        rows = torch.zeros(config.n_head, config.n_positions, config.n_embd // config.n_head)
        self.register_buffer("keys", rows.to(self.head.device))
        self.register_buffer("values", torch.zeros_like(self.keys))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        """Logits [1, vocabulary] after the hidden state x [1, hidden] at `position` [] (int64).

        Positions must come in ascending order from 0: those before are in the cache.
        """
        attention = self.block.attn
        query, key, value = attention.c_attn(self.block.ln_1(x)).view(3, self.heads, 1, -1)
        at = position.reshape(1)
        keys = self.keys.index_copy(1, at, key)
        values = self.values.index_copy(1, at, value)
        with torch.no_grad():
            self.keys.copy_(keys)
            self.values.copy_(values)
        seen = torch.arange(keys.shape[1], device=x.device) <= position
        mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen[None])
        x = x + attention.c_proj(mixed.reshape(1, -1))
        x = x + self.block.mlp(self.block.ln_2(x))
        return F.linear(self.norm(x).to(self.head.dtype), self.head)


def step_loss(model: nn.Module, x: Tensor, target: Tensor, position: Tensor) -> Tensor:
    """Cross entropy of `target` [] (int64) after the hidden state x [hidden] at `position` [] (int64)."""
    return F.cross_entropy(model(x[None], position).float(), target[None])


@torch.no_grad()
def steps_of(model: GPT2LMHeadModel, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(hidden states before the last block [n, hidden], tokens to predict [n], positions [n]) of tokens [n +
    1].
    """
    states = model(tokens[None, :-1], output_hidden_states=True, use_cache=False).hidden_states[-2]
    return states[0].clone(), tokens[1:].clone(), torch.arange(tokens.numel() - 1, device=tokens.device)


def step_operations(hidden: int, vocabulary: int, context: int) -> float:
    """Of a step's products, at half of the context: forward and both gradients of the block's weights;
    forward and the gradient of its input for the head; of attention no gradients of earlier keys and
    values.
    """
    block = 12 * hidden * hidden
    return 6.0 * block + 4.0 * vocabulary * hidden + 8.0 * hidden * context / 2
