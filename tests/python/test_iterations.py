"""Several runs of a step in one launch."""

import stretto
import torch


class Recurrence(torch.nn.Module):
    """state = tanh(w state + x), counted."""

    def __init__(self, width):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.weight = torch.nn.Parameter(torch.randn(width, width, generator=generator) / width**0.5)
        self.register_buffer("value", torch.randn(width, 1, generator=generator))
        self.register_buffer("count", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.value.copy_(torch.tanh(self.weight @ self.value + x))
        self.count.add_(1)
        return self.value * self.count


def test_iterations_of_one_launch_give_the_bits_of_as_many_calls():
    x = torch.randn(24, 1)
    one, many = (stretto.compile(Recurrence(24), (x,)) for _ in range(2))
    for _ in range(6):
        expected = one(x)
    assert torch.equal(many.repeat(6, x), expected)
    assert torch.equal(many.state["value"], one.state["value"])
    assert many.state["count"].item() == 6
