"""A compiled training update against eager PyTorch and against the same in float64."""

import copy

import pytest
import stretto
import torch


class TwoWeights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = torch.nn.Parameter(torch.tensor(0.5))
        self.w2 = torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.w2 * (self.w1 * x)


def half_square(model, x, t):
    return 0.5 * (model(x) - t) ** 2


def squared_error(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def mlp(width=32, depth=3, seed=0):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(width, width)]
    for _ in range(depth - 1):
        layers += [torch.nn.GELU(), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers)


def batches(count, rows=16, width=32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [tuple(torch.randn(rows, width, generator=generator) for _ in range(2)) for _ in range(count)]


def test_the_two_weight_example_is_exact():
    model = TwoWeights()
    batch = (torch.tensor(2.0), torch.tensor(1.0))
    update = stretto.compile_update(model, half_square, optimizer=stretto.SGD(lr=0.1), example=batch)
    assert update(*batch).item() == 0.125
    assert model.w1.item() == torch.tensor(0.35).item()
    assert model.w2.item() == torch.tensor(1.45).item()
    assert round(update(*batch).item(), 5) == 0.00011


def gradients(model, objective, batch):
    loss = objective(model, *batch)
    return dict(
        zip(dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True)
    )


def compiled_gradients(model, objective, batch, **options):
    """An SGD update with rate 1 moves parameters that are 0 by their gradients: a state holds them
    exactly.
    """
    update = stretto.compile_update(
        model, objective, optimizer=stretto.SGD(lr=0.0, momentum=0.5), example=batch, **options
    )
    update(*batch)
    return {name: update.state[f"optimizer.momentum_buffer.{name}"] for name, _ in model.named_parameters()}


def assert_gradients_as_close_as_eager(model, objective, batch, **options):
    """Each gradient is at most 1.2 times as far from float64 as eager's, up to one rounding of its largest
    element.
    """
    double = copy.deepcopy(model).double()
    wide = tuple(x.double() if x.is_floating_point() else x for x in batch)
    exact = gradients(double, objective, wide)
    eager = gradients(copy.deepcopy(model), objective, batch)
    ours = compiled_gradients(model, objective, batch, **options)
    for name, gradient in exact.items():
        rounding = torch.finfo(torch.float32).eps * gradient.abs().max()
        error = (ours[name].double() - gradient).norm()
        assert error <= 1.2 * (eager[name].double() - gradient).norm() + rounding, name


def test_gradients_of_an_mlp_are_as_close_to_float64_as_eagers():
    assert_gradients_as_close_as_eager(mlp(256), squared_error, batches(1, rows=64, width=256)[0])


def eager_trajectory(model, objective, optimizer, given, clip=None):
    losses = []
    for batch in given:
        optimizer.zero_grad()
        loss = objective(model, *batch)
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return losses


def distance(model, exact):
    return max(
        (a.double() - b).norm().item() / b.norm().item()
        for a, b in zip(model.parameters(), exact.parameters(), strict=True)
    )


def assert_same_trajectory(
    ours, torch_class, given, *, start=None, clip=None, factor=1.5, objective=squared_error
):
    """Parameters are no further from a float64 run than eager's, up to `factor` and roundings of each
    update.
    """
    model = start or mlp()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    update = stretto.compile_update(model, objective, optimizer=ours, example=given[0])
    losses = [update(*batch).item() for batch in given]
    expected = eager_trajectory(eager, objective, torch_class(eager.parameters()), given, clip)
    wide = [tuple(x.double() for x in batch) for batch in given]
    exact_losses = eager_trajectory(exact, objective, torch_class(exact.parameters()), wide, clip)
    rounding = len(given) * torch.finfo(torch.float32).eps
    assert distance(model, exact) <= factor * distance(eager, exact) + rounding
    worst = max(abs(a - b) for a, b in zip(expected, exact_losses, strict=True))
    scale = max(exact_losses)
    for loss, reference in zip(losses, exact_losses, strict=True):
        assert abs(loss - reference) <= factor * worst + rounding * scale


def test_twenty_updates_of_an_mlp_follow_eager():
    assert_same_trajectory(
        stretto.AdamW(lr=1e-3), lambda p: torch.optim.AdamW(p, lr=1e-3), batches(20, 64, 64), start=mlp(64)
    )


OPTIMIZERS = {
    "sgd": (stretto.SGD(lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": (
        stretto.SGD(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    ),
    "nesterov": (
        stretto.SGD(lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    ),
    "adam": (
        stretto.Adam(lr=1e-3, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=0.1),
    ),
    "adamw": (
        stretto.AdamW(lr=1e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_follows_its_namesake_in_pytorch(name):
    ours, theirs = OPTIMIZERS[name]
    assert_same_trajectory(ours, theirs, batches(6))
