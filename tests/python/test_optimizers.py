"""Optimizers inside a compiled update against torch.optim, and what surrounds them."""

import copy
import math

import pytest
import stretto
import torch
from update_models import (
    assert_same_trajectory,
    batches,
    eager_losses,
    mlp,
    squared_error,
    summed_error,
)

OPTIMIZERS = {
    "sgd": (stretto.SGD, torch.optim.SGD, {"lr": 0.1}),
    "momentum": (
        stretto.SGD,
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01},
    ),
    "nesterov": (stretto.SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": (stretto.Adam, torch.optim.Adam, {"lr": 1e-3, "weight_decay": 0.1}),
    "adamw": (
        stretto.AdamW,
        torch.optim.AdamW,
        {"lr": 1e-3, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1},
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_follows_its_namesake_in_pytorch(name):
    ours, theirs, settings = OPTIMIZERS[name]
    assert_same_trajectory(ours(**settings), lambda p: theirs(p, **settings), batches(6))


def test_clipping_follows_pytorch():
    settings = {"lr": 0.1, "momentum": 0.9}
    ours = stretto.SGD(**settings, clip_norm=0.05)
    assert_same_trajectory(ours, lambda p: torch.optim.SGD(p, **settings), batches(6), clip=0.05)


def test_small_gradients_are_not_clipped():
    assert_same_trajectory(
        stretto.SGD(lr=0.1, clip_norm=1e3), lambda p: torch.optim.SGD(p, lr=0.1), batches(3), clip=1e3
    )


class Lion(torch.optim.Optimizer):
    """The algorithm as its paper prints it."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = beta1 * m + (1 - beta1) * p.grad
                p.sub_(group["lr"] * (c.sign() + group["weight_decay"] * p))
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


def test_lion_follows_its_paper():
    settings = {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1}
    model = mlp()
    eager = copy.deepcopy(model)
    update = stretto.compile_update(
        model, squared_error, optimizer=stretto.Lion(**settings), example=batches(1)[0]
    )
    given = batches(5)
    for batch in given:
        update(*batch)
    eager_losses(eager, squared_error, Lion(eager.parameters(), **settings), given)
    steps = []
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        steps.append(((ours - theirs).abs() / settings["lr"]).flatten())
    off = torch.cat(steps)
    # The sign of an average that is about zero may be either; all others agree.
    assert (off > 1e-2).double().mean() < 1e-3


def matrices(name, parameter):
    return parameter.dim() == 2


def test_muon_follows_pytorch_and_leaves_vectors_to_another():
    model = mlp()
    eager = copy.deepcopy(model)
    optimizers = (stretto.Muon(lr=0.02, params=matrices), stretto.AdamW(lr=1e-2))
    update = stretto.compile_update(model, squared_error, optimizer=optimizers, example=batches(1)[0])
    muon = torch.optim.Muon([p for p in eager.parameters() if p.dim() == 2], lr=0.02)
    adamw = torch.optim.AdamW([p for p in eager.parameters() if p.dim() != 2], lr=1e-2)
    for batch in batches(4):
        update(*batch)
        adamw.zero_grad()
        eager_losses(eager, squared_error, muon, [batch])
        adamw.step()
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        # Four steps, each orthogonal in bfloat16 (8 bits); the iteration grows a rounding by 3.4 five times.
        assert (ours - theirs).norm() <= 4 * 0.02 * 2**-8 * 5 * 3.4 * math.sqrt(theirs.shape[0])


def test_groups_have_settings_of_their_own():
    def decayed(name, parameter):
        return parameter.dim() == 2

    ours = stretto.AdamW(lr=1e-2, weight_decay=0.0, groups=[{"params": decayed, "weight_decay": 0.5}])

    def theirs(parameters):
        parameters = list(parameters)
        matrices = {"params": [p for p in parameters if p.dim() == 2], "weight_decay": 0.5}
        vectors = {"params": [p for p in parameters if p.dim() != 2], "weight_decay": 0.0}
        return torch.optim.AdamW([vectors, matrices], lr=1e-2)

    assert_same_trajectory(ours, theirs, batches(4))


def test_a_schedule_is_evaluated_on_the_device():
    def rate(step):
        return 0.1 * torch.clamp((step + 1) / 4, max=1.0)

    model = mlp()
    eager = copy.deepcopy(model)
    update = stretto.compile_update(
        model, squared_error, optimizer=stretto.SGD(lr=rate), example=batches(1)[0]
    )
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for step, batch in enumerate(batches(6)):
        update(*batch)
        optimizer.param_groups[0]["lr"] = 0.1 * min((step + 1) / 4, 1)
        eager_losses(eager, squared_error, optimizer, [batch])
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_rule_of_the_users_own_is_compiled():
    def sign_descent(p, gradient, state, s):
        count = state["count"] + 1
        return p - s.rounded("lr", p) * gradient.sign() / count, {"count": count}

    model = mlp()
    start = copy.deepcopy(model)
    optimizer = stretto.Optimizer(sign_descent, {"lr": 0.125}, states=("count",))
    batch = batches(1)[0]
    update = stretto.compile_update(model, squared_error, optimizer=optimizer, example=batch)
    update(*batch)
    for new, old in zip(model.parameters(), start.parameters(), strict=True):
        torch.testing.assert_close((new - old).abs(), torch.full_like(old, 0.125), rtol=0, atol=1e-6)
    assert torch.equal(update.state["optimizer.count.0.bias"], torch.ones_like(model[0].bias))


def test_microbatches_of_different_sizes_weigh_by_their_tokens():
    rows = torch.tensor([16, 5, 9])

    def masked(model, x, y, count):
        """The first `count` rows of a batch count."""
        kept = (torch.arange(x.shape[0]) < count)[:, None]
        error = torch.where(kept, (model(x) - y).square(), 0.0)
        return error.sum(), count * x.shape[1]

    model = mlp()
    eager = copy.deepcopy(model)
    given = [(*batch, count) for batch, count in zip(batches(3), rows, strict=True)]
    update = stretto.compile_update(
        model, masked, optimizer=stretto.SGD(lr=0.1), example=given[0], accumulate=True
    )
    for batch in given[:-1]:
        update.accumulate(*batch)
    loss = update(*given[-1])
    whole = [torch.cat([b[part][: b[2]] for b in given]) for part in (0, 1)]
    expected = eager_losses(eager, squared_error, torch.optim.SGD(eager.parameters(), lr=0.1), [whole])
    torch.testing.assert_close(loss.item(), expected[0], rtol=1e-6, atol=0)
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert not any(t.any() for name, t in update.state.items() if name.startswith("sum."))


def test_a_sum_and_its_count_are_a_mean():
    assert_same_trajectory(
        stretto.SGD(lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1),
        batches(3),
        objective=lambda model, x, y: squared_error(model, x, y),
    )
    model = mlp()
    batch = batches(1)[0]
    update = stretto.compile_update(model, summed_error, optimizer=stretto.SGD(lr=0.1), example=batch)
    torch.testing.assert_close(update(*batch), squared_error(mlp(), *batch).detach(), rtol=1e-6, atol=0)


def test_an_update_that_is_not_finite_changes_only_the_scale():
    model = mlp()
    batch = batches(1)[0]
    scale = stretto.LossScale(initial=2.0**10, interval=2)
    update = stretto.compile_update(
        model, squared_error, optimizer=stretto.AdamW(lr=1e-2), example=batch, loss_scale=scale
    )
    update(*batch)
    before = {name: tensor.clone() for name, tensor in update.state.items()}
    update(torch.full_like(batch[0], math.inf), batch[1])
    changed = {name for name, tensor in update.state.items() if not torch.equal(tensor, before[name])}
    assert changed == {"scale", "good_steps", "draws"}
    assert update.state["scale"].item() == 2.0**9
    for _ in range(2):
        update(*batch)
    assert update.state["scale"].item() == 2.0**10
    assert update.count == 3


def test_a_scaled_loss_gives_the_same_update():
    batch = batches(1)[0]
    model, plain = mlp(), mlp()
    options = {"optimizer": stretto.SGD(lr=0.1), "example": batch}
    stretto.compile_update(model, squared_error, loss_scale=stretto.LossScale(2.0**12), **options)(*batch)
    stretto.compile_update(plain, squared_error, **options)(*batch)
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_averages_follow_the_parameters():
    model = mlp()
    average = copy.deepcopy(model)
    update = stretto.compile_update(
        model, squared_error, optimizer=stretto.SGD(lr=0.1), example=batches(1)[0], average_decay=0.9
    )
    for batch in batches(4):
        update(*batch)
        for mean, p in zip(average.parameters(), model.parameters(), strict=True):
            mean.data.lerp_(p.data, 0.1)
    for (name, mean), kept in zip(average.named_parameters(), update.averages().values(), strict=True):
        torch.testing.assert_close(kept, mean.data, rtol=1e-6, atol=1e-6, msg=name)
