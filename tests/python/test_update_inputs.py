"""What models bring along: dropout, batch norm, frozen and tied parameters, values that are not finite."""

import copy
import math
import re

import stretto
import torch
from torch.nn import functional as F
from update_models import BATCH, batches, compiled, eager_losses, mlp, normalized, squared_error


class Dropped(torch.nn.Module):
    """One weight for each element, so that its gradient is the mask over (1 - p)."""

    def __init__(self, p):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(64, 64))
        self.p = p

    def forward(self):
        return F.dropout(self.weight, self.p, self.training)


def total(model):
    return model().sum()


def masks(p, count, seed=0):
    """The masks of so many updates of a model whose weights do not move."""
    model = Dropped(p)
    optimizer = stretto.SGD(lr=0.0, momentum=0.5)
    update = stretto.compile_update(model, total, optimizer=optimizer, example=(), seed=seed)
    found = []
    for _ in range(count):
        update.state["optimizer.momentum_buffer.weight"].zero_()
        loss = update()
        gradient = update.state["optimizer.momentum_buffer.weight"].clone()
        assert torch.isclose(
            loss, gradient.sum(), rtol=1e-5
        )  # forward and backward dropped the same elements
        found.append(gradient)
    return found


def test_dropout_keeps_a_share_and_scales_it():
    for mask in masks(0.25, 3):
        assert set(mask.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
        # Six standard deviations of the share that is kept.
        assert abs((mask > 0).double().mean().item() - 0.75) < 6 * (0.75 * 0.25 / 64**2) ** 0.5


def test_each_update_drops_anew_and_a_seed_repeats_it():
    first, second = masks(0.5, 2)
    assert not torch.equal(first, second)
    again = masks(0.5, 2)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert not torch.equal(first, masks(0.5, 1, seed=1)[0])


def test_dropout_is_one_region_that_stores_its_mask():
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.Dropout(0.25), torch.nn.Linear(256, 32))
    plan = compiled(model, example=batches(1, rows=128)[0]).plan
    kept = re.findall(r"^buffer b\d+ = arena .* : (\w+)\[128, 256\]$", plan, re.MULTILINE)
    assert set(kept) == {"bool", "f32"}  # no words of random numbers
    regions = [text for text in plan.split("\nregion ") if "3528905107" in text]
    assert len(regions) == 1


def test_dropout_is_off_in_evaluation_mode():
    model = Dropped(0.5).eval()
    update = stretto.compile_update(model, total, optimizer=stretto.SGD(lr=0.0), example=())
    assert update().item() == 64 * 64


def test_statistics_of_a_batch_norm_move_as_in_pytorch():
    model = normalized()
    eager = copy.deepcopy(model)
    update = compiled(model)
    for batch in batches(3):
        update(*batch)
    eager_losses(eager, squared_error, torch.optim.SGD(eager.parameters(), lr=0.1), batches(3))
    for (name, ours), theirs in zip(model.state_dict().items(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(
            ours, theirs, rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_frozen_parameters_stay():
    model = mlp()
    model[0].requires_grad_(False)
    before = copy.deepcopy(model)
    update = compiled(model)
    update(*BATCH)
    assert torch.equal(model[0].weight, before[0].weight)
    assert not torch.equal(model[2].weight, before[2].weight)
    expected = before[2].weight - 0.1 * gradients_of_trained(before)["2.weight"]
    torch.testing.assert_close(model[2].weight, expected, rtol=1e-5, atol=1e-6)


def gradients_of_trained(model):
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(squared_error(model, *BATCH), list(trained.values()))
    return dict(zip(trained, found, strict=True))


class Tied(torch.nn.Module):
    """The embedding is the head's matrix as well."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(24, 16)
        self.head = torch.nn.Linear(16, 24, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.embedding(ids)))


def test_tied_parameters_get_both_gradients_and_stay_tied():
    model = Tied()
    eager = copy.deepcopy(model)
    ids = torch.randint(0, 24, (40,), generator=torch.Generator().manual_seed(1))

    def loss(model, ids):
        return F.cross_entropy(model(ids[:-1]), ids[1:])

    update = stretto.compile_update(model, loss, optimizer=stretto.SGD(lr=0.5, momentum=0.9), example=(ids,))
    given = [(ids.roll(n),) for n in range(3)]
    for batch in given:
        update(*batch)
    eager_losses(eager, loss, torch.optim.SGD(eager.parameters(), lr=0.5, momentum=0.9), given)
    assert model.head.weight is model.embedding.weight
    assert [name for name in update.state if name.startswith("model.")] == ["model.embedding.weight"]
    torch.testing.assert_close(model.head.weight, eager.head.weight, rtol=1e-5, atol=1e-6)


def test_an_update_that_is_not_finite_can_leave_everything_as_it_is():
    model = normalized()  # statistics of the batch norm stay, too
    update = compiled(
        model, optimizer=stretto.AdamW(), skip_non_finite=True, average_decay=0.9, updates_per_launch=2
    )
    list(update.train([BATCH]))
    before = {name: t.clone() for name, t in update.state.items() if name not in ("losses", "norms")}
    x, y = BATCH
    reports = list(update.train([(x, y * float("inf")), (x, y * float("nan"))]))
    assert not any(math.isfinite(report.loss) for report in reports)
    changed = {name for name, tensor in before.items() if not torch.equal(update.state[name], tensor)}
    assert changed == {"draws"}
    assert [math.isfinite(report.loss) for report in update.train([BATCH])] == [True]
    assert update.count == 2
