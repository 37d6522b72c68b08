"""Choosing the next token from logits, in plain PyTorch: eager execution defines what a compiled one does."""

from __future__ import annotations

import math

import torch

from .errors import UserError
from .philox import philox

_DIGIT_BITS = 4


class Sampler(torch.nn.Module):
    """Chooses a token for each row of logits: without options the largest, the first among equals.

    With a `temperature` it draws: the same `seed`, position and row give the same token again, whatever
    else is computed. The options mean what they mean in transformers and are applied in its order:
    `repetition_penalty`, `temperature`, `top_k`, `top_p`, `min_p`; tokens that are equal to the last one
    kept by `top_k` or `top_p` are kept, too. All values live in buffers, so `set` changes them in a
    compiled generator. Which options there are is fixed when the sampler is made.
    """

    def __init__(
        self,
        *,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        seed: int = 0,
    ):
        super().__init__()
        given = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
        }
        if temperature is None and any(given[name] is not None for name in ("top_k", "top_p", "min_p")):
            raise UserError("top_k, top_p and min_p choose what to draw from: give a temperature, too")
        self.options = frozenset(name for name, value in given.items() if value is not None)
        for name in sorted(self.options):
            dtype = torch.long if name == "top_k" else torch.float32
            self.register_buffer(name, torch.zeros(1, dtype=dtype), persistent=False)
        if self.draws:
            self.register_buffer("seed", torch.zeros(1, dtype=torch.long), persistent=False)
            given["seed"] = seed
        self.set(**{name: value for name, value in given.items() if value is not None})

    @property
    def draws(self) -> bool:
        """Does it draw tokens, or take the best?"""
        return "temperature" in self.options

    @property
    def looks_back(self) -> bool:
        """Does it need to know which tokens a row has had?"""
        return "repetition_penalty" in self.options

    def set(self, **values: float) -> None:
        """Changes options that the sampler was made with. Raises UserError on others and on bad values."""
        for name, value in values.items():
            if name not in self.options and not (name == "seed" and self.draws):
                known = ", ".join(sorted(self.options)) or "none"
                raise UserError(f"the sampler was made without {name!r}; its options: {known}")
            if not _VALID[name](value):
                raise UserError(f"{name} is {value}, it must be {_RANGES[name]}")
            getattr(self, name).fill_(value)

    def forward(
        self, logits: torch.Tensor, position: torch.Tensor, seen: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Tokens [batch] for `logits` [batch, vocabulary] of the token at `position` [1].

        `seen` [batch, vocabulary] says which tokens a row has had; the repetition penalty needs it.
        """
        scores = logits.float()
        if self.looks_back:
            penalized = torch.where(
                scores > 0, scores / self.repetition_penalty, scores * self.repetition_penalty
            )
            scores = torch.where(seen, penalized, scores)
        if not self.draws:
            return scores.argmax(dim=-1)
        noisy = scores + self.temperature * self._gumbel_noise(scores, position)
        kept = self._kept(scores)
        if kept is not None:
            noisy = torch.where(kept, noisy, -math.inf)
        return noisy.argmax(dim=-1)

    def _kept(self, scores: torch.Tensor) -> torch.Tensor | None:
        """Which tokens may be drawn; None for all."""
        kept = None
        if "top_k" in self.options:
            kept = self._top_k(scores)
        if "top_p" in self.options:
            kept = self._top_p(scores, kept)
        if "min_p" in self.options:
            # p >= min_p * largest p, as logarithms.
            lowest = scores.amax(dim=-1, keepdim=True) + self.temperature * self.min_p.log()
            likely = scores >= lowest
            kept = likely if kept is None else kept & likely
        return kept

    def _top_k(self, scores: torch.Tensor) -> torch.Tensor:
        keys = _ordered(scores)
        wanted = self.top_k.clamp(max=scores.shape[-1])
        return keys >= _largest_threshold(keys, lambda chosen: chosen.sum(dim=-1) >= wanted)

    def _top_p(self, scores: torch.Tensor, kept: torch.Tensor | None) -> torch.Tensor:
        keys = _ordered(scores)
        # At temperature 0 one token has all the mass; dividing by a little more than 0 says so without NaN.
        divisor = self.temperature.clamp(min=1e-6)
        masses = ((scores - scores.amax(dim=-1, keepdim=True)) / divisor).exp()
        if kept is not None:
            masses = torch.where(kept, masses, 0.0)
        wanted = self.top_p * masses.sum(dim=-1, keepdim=True)

        def holds_enough(chosen: torch.Tensor) -> torch.Tensor:
            return torch.where(chosen, masses[:, None, :], 0.0).sum(dim=-1) >= wanted

        nucleus = keys >= _largest_threshold(keys, holds_enough)
        return nucleus if kept is None else nucleus & kept

    def _gumbel_noise(self, scores: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Noise with which the largest of scores / temperature + noise is a draw from their softmax."""
        rows, vocabulary = scores.shape
        token = torch.arange(vocabulary, device=scores.device)[None, :]
        row = torch.arange(rows, device=scores.device)[:, None]
        word = philox(token, position[None, :], row, self.seed[None, :])
        # 23 bits and a half, which a float holds exactly: never 0 and never 1.
        uniform = ((word >> 9).float() + 0.5) * 2.0**-23
        return -(-uniform.log()).log()


_VALID = {
    "temperature": lambda value: value >= 0,
    "top_k": lambda value: value >= 1,
    "top_p": lambda value: 0 < value <= 1,
    "min_p": lambda value: 0 < value <= 1,
    "repetition_penalty": lambda value: value > 0,
    "seed": lambda value: 0 <= value < 2**63,
}
_RANGES = {
    "temperature": "0 or more",
    "top_k": "1 or more",
    "top_p": "more than 0 and at most 1",
    "min_p": "more than 0 and at most 1",
    "repetition_penalty": "more than 0",
    "seed": "in [0, 2**63)",
}


def _ordered(scores: torch.Tensor) -> torch.Tensor:
    """Integers in [0, 2**32) with the order of the float32 `scores`."""
    bits = scores.view(torch.int32).long()
    return torch.where(bits < 0, -1 - bits, bits + 2**31)


def _largest_threshold(keys: torch.Tensor, enough) -> torch.Tensor:
    """The largest t [batch, 1] for which the keys >= t [batch, vocabulary] are `enough`.

    Found digit by digit, in a fixed number of passes. `enough` takes a choice of keys [batch, candidates,
    vocabulary], holds for all keys together, and says for each candidate whether its keys suffice.
    """
    digits = torch.arange(2**_DIGIT_BITS, device=keys.device)[None, :]
    found = torch.zeros_like(keys[:, :1])
    for shift in range(32 - _DIGIT_BITS, -1, -_DIGIT_BITS):
        candidates = found + (digits << shift)
        suffices = enough(keys[:, None, :] >= candidates[:, :, None])
        found = found + ((suffices.sum(dim=-1, keepdim=True) - 1).clamp(min=0) << shift)
    return found
