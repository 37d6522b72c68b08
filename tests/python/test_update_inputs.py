"""Dropout, batch norm, frozen parameters, and what a compiled update says to input that does not fit."""

import copy
import math

import pytest
import stretto
import torch
from torch.nn import functional as F
from update_models import batches, eager_losses, mlp, squared_error

BATCH = batches(1)[0]


def compiled(model, objective=squared_error, **options):
    options = {"optimizer": stretto.SGD(lr=0.1), "example": BATCH} | options
    return stretto.compile_update(model, objective, **options)


def message(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


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


def test_dropout_is_off_in_evaluation_mode():
    model = Dropped(0.5).eval()
    update = stretto.compile_update(model, total, optimizer=stretto.SGD(lr=0.0), example=())
    assert update().item() == 64 * 64


def normalized(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 32)
    )


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


def test_a_model_with_nothing_to_train_is_refused():
    model = mlp().requires_grad_(False)
    assert "no parameter that requires a gradient" in message(stretto.UserError, lambda: compiled(model))


def test_parameters_without_a_gradient_are_named():
    model = mlp()
    model.unused = torch.nn.Linear(3, 3)

    def without_unused(model, x, y):
        for layer in list(model)[:-1]:
            x = layer(x)
        return F.mse_loss(x, y)

    text = message(stretto.UserError, lambda: compiled(model, without_unused))
    assert "the loss does not depend on these parameters: unused.weight, unused.bias" in text
    assert "requires_grad_(False)" in text


def test_an_objective_without_a_scalar_loss_is_refused():
    text = message(stretto.UserError, lambda: compiled(mlp(), lambda model, x, y: (model(x) - y).square()))
    assert "the objective must return its loss" in text
    assert "shape (16, 32)" in text


def test_something_else_than_an_optimizer_is_refused():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    text = message(stretto.InputTypeError, lambda: compiled(model, optimizer=optimizer))
    assert "pass stretto.AdamW" in text


def test_a_parameter_of_no_optimizer_is_named():
    optimizer = stretto.SGD(lr=0.1, params=["0.weight"])
    assert "no optimizer selects parameter '0.bias'" in message(
        stretto.UserError, lambda: compiled(mlp(), optimizer=optimizer)
    )


@pytest.fixture(scope="module")
def update():
    return compiled(mlp())


WRONG = {
    "a larger batch": (
        lambda x, y: (torch.cat([x, x]), torch.cat([y, y])),
        stretto.UserError,
        "has shape (32, 32)",
    ),
    "other features": (lambda x, y: (x[:, :8], y), stretto.UserError, "compiled for (16, 32)"),
    "another dtype": (lambda x, y: (x.double(), y), stretto.InputTypeError, "input 'x' is torch.float64"),
    "another device": (lambda x, y: (x.to("meta"), y), stretto.InputTypeError, "is on meta"),
    "no tensor": (lambda x, y: (x, 3.0), stretto.InputTypeError, "input 'y' is a float"),
    "too few": (lambda x, y: (x,), stretto.UserError, "differ in structure"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_batch_that_does_not_fit_is_refused_and_changes_nothing(update, case):
    change, error, text = WRONG[case]
    before = {name: tensor.clone() for name, tensor in update.state.items()}
    assert text in message(error, lambda: update(*change(*BATCH)))
    assert all(torch.equal(before[name], tensor) for name, tensor in update.state.items())


def assert_refused(update, error, text, call):
    """The error is raised, and nothing has changed."""
    before = {name: tensor.clone() for name, tensor in update.state.items()}
    assert text in message(error, call)
    assert all(torch.equal(before[name], tensor) for name, tensor in update.state.items())


def test_a_microbatch_that_does_not_fit_is_refused_and_adds_nothing():
    update = compiled(mlp(), accumulate=True)
    update.accumulate(*BATCH)
    x, y = BATCH
    assert_refused(update, stretto.UserError, "has shape (8, 32)", lambda: update.accumulate(x[:8], y[:8]))


def test_a_model_that_was_converted_is_refused():
    model = mlp()
    update = compiled(model)
    model.bfloat16()
    text = "the model's parameters are others now than those of the update (0.weight for one)"
    assert_refused(update, stretto.UserError, text, lambda: update(*BATCH))


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


def test_microbatches_need_an_update_compiled_for_them(update):
    assert "accumulate=True" in message(stretto.UserError, lambda: update.accumulate(*BATCH))


def test_an_unknown_setting_is_refused_with_those_that_exist(update):
    text = message(stretto.UserError, lambda: update.set(rate=0.1))
    assert "'rate' is no setting" in text
    assert "lr, weight_decay" in text


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(update):
    before = {name: tensor.clone() for name, tensor in update.state.items()}
    state = update.state_dict()
    assert "has no optimizers" in message(
        stretto.UserError,
        lambda: update.load_state_dict({"model": state["model"], "update": state["update"]}),
    )
    other = compiled(mlp(), optimizer=stretto.AdamW()).state_dict()
    mixed = other | {"update": state["update"] | {"scale": torch.ones(())}}
    assert "differ in scale" in message(stretto.UserError, lambda: update.load_state_dict(mixed))
    changed = {name: tensor + 1 for name, tensor in state["model"].items()}
    wider = state | {"model": changed | {"2.bias": torch.zeros(33)}}
    assert "does not fit the model: 2.bias (33,)" in message(
        stretto.UserError, lambda: update.load_state_dict(wider)
    )
    del changed["0.weight"]
    fewer = state | {"model": changed}
    assert "does not fit the model: 0.weight (missing)" in message(
        stretto.UserError, lambda: update.load_state_dict(fewer)
    )
    longer = state | {"update": state["update"] | {"step": torch.zeros(2, dtype=torch.long)}}
    assert "does not fit the update: step (2,)" in message(
        stretto.UserError, lambda: update.load_state_dict(longer)
    )
    assert all(torch.equal(before[name], tensor) for name, tensor in update.state.items())
