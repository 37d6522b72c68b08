"""Curves of losses beside eager PyTorch; `scripts/loss_curves.py` draws longer ones."""

import loss_curves
import pytest
import torch
import train_gpt

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPE = train_gpt.Shape(width=16, layers=1, heads=2, context=16, batch=2)
UPDATES = 20


def test_the_curve_of_a_mixture_of_experts_lies_on_eagers():
    row = loss_curves.compare("moe", SHAPE, UPDATES, torch.float32, torch.device("cpu"))
    assert len(row["losses"]) == UPDATES
    assert row["losses"][-1] < row["losses"][0] - 0.02
    # Each update may move the loss by one more rounding of it, in both runs.
    assert row["largest_gap"] <= 2 * UPDATES * 2**-24 * row["losses"][0]


def test_a_gap_is_the_largest_distance_and_infinite_where_a_loss_is_lost():
    assert loss_curves.gap([3.0, 2.0, 1.0], [3.0, 2.5, 1.25]) == 0.5
    assert loss_curves.gap([3.0, float("nan")], [3.0, 1.0]) == float("inf")
