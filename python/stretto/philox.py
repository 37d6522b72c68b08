"""Random numbers by counters (Salmon et al., SC 2011): each depends on its place alone, not on the order of a
run.

All tensors are int64, broadcast, and hold 32-bit words.
"""

from __future__ import annotations

import torch

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


def philox_2x32(element: torch.Tensor, counter: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The first word of Philox2x32-10 for the counter (element, counter).

    `counter` and `key` have the shape of `element` or one element.
    """
    left, right = element, counter
    key = key.expand_as(element)  # as a scalar the key of each round would be stored for all elements
    for round_key in range(0, 10 * _GOLDEN, _GOLDEN):
        product = left * 0xD256D193
        left, right = ((product >> 32) ^ (key + round_key) ^ right) & _WORD, product
    return left


def philox(
    first: torch.Tensor, second: torch.Tensor, third: torch.Tensor, seed: torch.Tensor
) -> torch.Tensor:
    """The first word of Philox4x32-10 for the counter (first, second, third, 0) and the 64-bit key `seed`."""
    a, b, c, d = first, second, third, torch.zeros_like(first)
    low_key, high_key = seed & _WORD, (seed >> 32) & _WORD
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = _high(q) ^ b ^ low_key, q & _WORD, _high(p) ^ d ^ high_key, p & _WORD
        low_key, high_key = (low_key + _GOLDEN) & _WORD, (high_key + 0xBB67AE85) & _WORD
    return a


def _high(product: torch.Tensor) -> torch.Tensor:
    """The upper word of a 64-bit product, which int64 holds modulo 2**64."""
    return (product >> 32) & _WORD
