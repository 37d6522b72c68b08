"""Small models, objectives and batches for the tests of compiled updates."""

import copy

import stretto
import torch
from stretto.checks import StaysFloat64


def next_token_loss(model, ids):
    """Of a language model from transformers."""
    logits = model(input_ids=ids, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())


def mlp(width=32, depth=3, seed=0):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(width, width)]
    for _ in range(depth - 1):
        layers += [torch.nn.GELU(), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers)


def squared_error(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def summed_error(model, x, y):
    """The sum of errors, and how many there are."""
    error = (model(x) - y).square()
    return error.sum(), torch.tensor(float(error.numel()))


def batches(count, rows=16, width=32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [tuple(torch.randn(rows, width, generator=generator) for _ in range(2)) for _ in range(count)]


def normalized(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 32)
    )


BATCH = batches(1)[0]


def compiled(model, objective=squared_error, **options):
    """An update of one batch, by SGD unless the options say otherwise."""
    options = {"optimizer": stretto.SGD(lr=0.1), "example": BATCH} | options
    return stretto.compile_update(model, objective, **options)


def widened(batch):
    return tuple(x.double() if x.is_floating_point() else x for x in batch)


def gradients(model, objective, batch):
    parameters = dict(model.named_parameters())
    found = torch.autograd.grad(objective(model, *batch), list(parameters.values()))
    return dict(zip(parameters, found, strict=True))


def exact_gradients(model, objective, batch):
    """In float64, whatever the objective rounds."""
    with StaysFloat64():
        return gradients(copy.deepcopy(model).double(), objective, widened(batch))


def compiled_gradients(model, objective, batch, **options):
    """The first momentum of an SGD update is the gradient itself. Its rate is 0, so the model stays."""
    optimizer = stretto.SGD(lr=0.0, momentum=0.5)
    update = stretto.compile_update(model, objective, optimizer=optimizer, example=batch, **options)
    update(*batch)
    return {name: update.state[f"optimizer.momentum_buffer.{name}"] for name, _ in model.named_parameters()}


def assert_as_close_as_eager(ours, eager, exact, dtype=torch.float32):
    """Each gradient is at most 1.2 times as far from float64 as eager's, up to one rounding to `dtype` of all
    its elements.
    """
    for name, gradient in exact.items():
        rounding = torch.finfo(dtype).eps * gradient.norm()
        error = (ours[name].double() - gradient).norm()
        eager_error = (eager[name].double() - gradient).norm()
        assert error <= 1.2 * eager_error + rounding, (name, error / eager_error)


def assert_gradients_as_close_as_eager(model, objective, batch, *, eager_objective=None, **options):
    """As assert_as_close_as_eager. `eager_objective` is what eager runs where it has to do by hand what the
    update has an option for.
    """
    exact = exact_gradients(model, objective, batch)
    eager = gradients(copy.deepcopy(model), eager_objective or objective, batch)
    assert_as_close_as_eager(compiled_gradients(model, objective, batch, **options), eager, exact)


def eager_losses(model, objective, optimizer, given, clip=None):
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
    pairs = zip(model.parameters(), exact.parameters(), strict=True)
    return max((a.double() - b.double()).norm().item() / b.norm().item() for a, b in pairs)


def assert_same_trajectory(
    ours, torch_class, given, *, model=None, clip=None, objective=squared_error, **options
):
    """Parameters and losses are no further from a float64 run than eager's, up to half of that and
    roundings.
    """
    model = model or mlp()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    update = stretto.compile_update(model, objective, optimizer=ours, example=given[0], **options)
    losses = [update(*batch).item() for batch in given]
    expected = eager_losses(eager, objective, torch_class(eager.parameters()), given, clip)
    wide = [widened(batch) for batch in given]
    with StaysFloat64():
        exact_losses = eager_losses(exact, objective, torch_class(exact.parameters()), wide, clip)
    rounding = len(given) * torch.finfo(torch.float32).eps
    assert distance(model, exact) <= 1.5 * distance(eager, exact) + rounding
    worst = max(abs(a - b) for a, b in zip(expected, exact_losses, strict=True))
    for loss, reference in zip(losses, exact_losses, strict=True):
        assert abs(loss - reference) <= 1.5 * worst + rounding * max(exact_losses)
