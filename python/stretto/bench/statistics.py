"""Medians with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000
CONFIDENCE = 0.95


def median_interval(groups: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Median of all values, and its 95 % interval from resampling whole groups and values in them.

    A group is what one process measured: its values share a memory layout and are not independent.
    """
    if not groups or any(len(group) == 0 for group in groups):
        raise ValueError("median_interval needs at least one group and no empty ones")
    arrays = [np.asarray(group, dtype=float) for group in groups]
    generator = np.random.default_rng(0)
    medians = []
    for _ in range(RESAMPLES):
        chosen = generator.integers(len(arrays), size=len(arrays))
        values = [generator.choice(arrays[index], size=len(arrays[index])) for index in chosen]
        medians.append(np.median(np.concatenate(values)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return float(np.median(np.concatenate(arrays))), float(low), float(high)
