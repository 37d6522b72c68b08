"""Regions beside the operations of PyTorch that they compute."""

import re

import stretto
import torch
from stretto.check_regions import check_regions

X = torch.randn(24, 32, generator=torch.Generator().manual_seed(3))


class Chain(torch.nn.Module):
    """Two products with a reduction between them, which is a region of its own; `factor` is a fault."""

    def __init__(self, factor=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(32, 48)
        self.second = torch.nn.Linear(48, 16)
        self.factor = factor

    def forward(self, x):
        hidden = torch.softmax(self.first(x), dim=0) * self.factor
        return self.second(hidden).sum(dim=0)


def checked(compiled, right):
    step = stretto.compile(compiled, (X,))
    return check_regions(step.region_values(X), stretto.export(right, (X,)), right.state_dict(), [X])


def test_regions_of_a_right_program_are_what_pytorch_computes():
    checks = checked(Chain(), Chain())
    assert {"linear"} <= {check.operation for check in checks}
    assert not any(check.is_off for check in checks)


def test_the_first_region_that_is_off_is_the_one_with_the_fault():
    checks = checked(Chain(factor=1.01), Chain())
    operations = [check.operation for check in checks]
    assert not checks[operations.index("linear")].is_off
    first = next(check for check in checks if check.is_off)
    assert first.operation in ("softmax", "mul", "linear_1")
    assert abs(first.error - 0.01) < 1e-3
    assert "in float64, eager is" in str(first)


def test_a_tensor_that_several_regions_write_is_compared_when_it_is_whole():
    class Joined(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second, self.third = (torch.nn.Linear(32, 32) for _ in range(3))

        def forward(self, x):
            return torch.softmax(self.third(torch.cat([self.first(x), self.second(x.cos())])), dim=0)

    step = stretto.compile(Joined(), (X,))
    values = step.region_values(X)
    joined = re.search(r'buffer (b\d+) = arena "(.*cat.*)" : f32\[48, 32\]', step.plan)
    assert step.plan.count(f"store {joined[1]} ") == 2
    assert [value.buffer for value in values].count(joined[2]) == 1
    assert all(value.value.isfinite().all() for value in values)
    checks = check_regions(values, stretto.export(Joined(), (X,)), Joined().state_dict(), [X])
    assert "cat" in {check.operation for check in checks}
    assert not any(check.is_off for check in checks)


def test_values_are_those_of_a_run_on_copies():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(32))

        def forward(self, x):
            self.total.add_(x.sum(dim=0))
            return torch.softmax(self.total, dim=0).cumsum(dim=0)

    step = stretto.compile(Counter(), (X,))
    assert step.region_values(X)
    assert torch.equal(step.state["total"], torch.zeros(32))
