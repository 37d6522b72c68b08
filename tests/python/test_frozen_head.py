"""The loss behind a large matrix that is not trained: it is read once, for the loss and its gradient."""

import pytest
import stretto
import torch
from torch.nn import functional as F
from update_models import assert_gradients_as_close_as_eager

COLUMNS = 9000


class Frozen(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(3)
        self.layer = torch.nn.Linear(16, 64)
        self.register_buffer("head", torch.randn(COLUMNS, 64, dtype=dtype))

    def forward(self, x):
        return F.linear(self.layer(x).to(self.head.dtype), self.head).float()


def cross_entropy(model, x, labels):
    return F.cross_entropy(model(x), labels)


def smoothed(model, x, labels):
    return F.cross_entropy(model(x), labels, label_smoothing=0.1)


def weighted(model, x, labels):
    return (F.cross_entropy(model(x), labels, reduction="none") * x[:, 0]).sum()


def kinds(model, objective, batch):
    update = stretto.compile_update(
        model, objective, optimizer=stretto.SGD(lr=0.1), example=batch, machine="h200", backend="cpu"
    )
    return [line.split()[4] for line in update.explain().splitlines() if "aten.mm" in line]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("objective", [cross_entropy, weighted])
@pytest.mark.parametrize("labels", [[7], [8999, 0], [4, -100]])
def test_a_frozen_heads_gradient_is_as_close_to_float64_as_eagers(dtype, objective, labels):
    batch = (torch.randn(len(labels), 16, generator=torch.Generator().manual_seed(5)), torch.tensor(labels))
    model = Frozen(dtype)
    assert "attention" in kinds(model, objective, batch)
    assert_gradients_as_close_as_eager(model, objective, batch, machine="h200", backend="cpu")


def test_smoothed_labels_keep_both_products():
    batch = (torch.randn(1, 16), torch.tensor([7]))
    assert "attention" not in kinds(Frozen(torch.float32), smoothed, batch)
