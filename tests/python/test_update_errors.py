"""What a compiled update says to models, options and input that do not fit; nothing has changed then."""

import pytest
import stretto
import torch
from torch.nn import functional as F
from update_models import BATCH, compiled, mlp, normalized


def message(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


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


def test_a_loss_without_any_gradient_is_refused():
    text = message(stretto.UserError, lambda: compiled(mlp(), lambda model, x, y: x.mean()))
    assert "the loss does not depend on these parameters: 0.weight, 0.bias, 2.weight" in text


def test_what_pytorch_cannot_trace_is_refused():
    def rate(step):
        return 0.1 if step > 10 else 0.2

    text = message(stretto.UserError, lambda: compiled(mlp(), optimizer=stretto.SGD(lr=rate)))
    assert "PyTorch cannot trace this update: " in text
    assert "without branches on values" in text


def test_an_operation_that_is_missing_is_named_with_its_gradient():
    model = torch.nn.Sequential(torch.nn.Unflatten(1, (4, 8)), torch.nn.Conv1d(4, 4, 3, padding=1))
    text = message(stretto.UserError, lambda: compiled(model, lambda model, x, y: model(x).mean()))
    assert "aten.convolution.default (1 call)" in text
    assert "aten.convolution_backward.default (1 call)" in text


def test_an_objective_without_a_scalar_loss_is_refused():
    text = message(stretto.UserError, lambda: compiled(mlp(), lambda model, x, y: (model(x) - y).square()))
    assert "the objective must return its loss" in text
    assert "shape (16, 32)" in text


def test_something_else_than_an_optimizer_is_refused():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    text = message(stretto.InputTypeError, lambda: compiled(model, optimizer=optimizer))
    assert "pass stretto.AdamW" in text


OPTIONS = {
    "a loss scale": ({"loss_scale": 1024.0}, "pass stretto.LossScale(initial=...)"),
    "an average": ({"average_decay": 1.0}, "average_decay is 1.0, it must be at least 0 and less than 1"),
    "a launch": ({"updates_per_launch": 0}, "updates_per_launch is 0, it must be at least 1"),
    "a backend": ({"backend": "gpu"}, "unknown backend 'gpu'; known: reference, cpu, cuda"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_an_option_that_means_nothing_is_refused(case):
    options, text = OPTIONS[case]
    assert text in message(stretto.UserError, lambda: compiled(mlp(), **options))


SETTINGS = {
    "a word": ({"lr": "cosine"}, "setting 'lr' of the optimizer is a str"),
    "a number of the host": ({"lr": lambda step: 0.1}, "the schedule of 'lr' returned a float"),
    "a group of nobody": (
        {"groups": [{"params": ["0.bias", "bias"], "lr": 1.0}]},
        "the model has no such parameters: bias\n  the optimizer's params are names",
    ),
    "a string": ({"params": "0.bias"}, "the optimizer's params are the string '0.bias'"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting_that_means_nothing_is_refused(case):
    settings, text = SETTINGS[case]
    assert text in message(stretto.UserError, lambda: compiled(mlp(), optimizer=stretto.SGD(**settings)))


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


def moved(model):
    model[2].weight.data = torch.randn(32, 32)


def tied(model):
    model[4].weight = model[2].weight


def replaced(model):
    model[2] = torch.nn.Linear(32, 32)


def with_less_precision(model):
    model.bfloat16()


OTHERS = {moved: "2.weight", tied: "4.weight", replaced: "2", with_less_precision: "0.weight, 0.bias, "}


@pytest.mark.parametrize("change", OTHERS)
def test_a_model_that_holds_other_tensors_is_refused(change):
    model = mlp()
    update = compiled(model, accumulate=True)
    change(model)
    text = f"parameters or modules are others now than those of the update: {OTHERS[change]}"
    for call in (update, update.accumulate):
        assert_refused(update, stretto.UserError, text, lambda call=call: call(*BATCH))
    assert text in message(stretto.UserError, update.state_dict)


def test_parameters_that_share_memory_without_being_tied_are_refused():
    model = mlp()
    model[2].weight.data = model[0].weight.data
    text = message(stretto.UserError, lambda: compiled(model))
    assert "'model.0.weight' and 'model.2.weight' share memory, and the program changes both" in text


def test_other_statistics_of_a_batch_norm_are_refused():
    model = normalized()
    update = compiled(model)
    model[1].running_mean = torch.zeros(32)
    text = "others now than those of the update: 1.running_mean\n"
    assert_refused(update, stretto.UserError, text, lambda: update(*BATCH))


def test_parameters_that_were_frozen_or_unfrozen_are_refused_until_they_are_as_before():
    model = mlp()
    model[0].requires_grad_(False)
    update = compiled(model)
    model[2].requires_grad_(False)
    text = "these parameters were frozen after compile_update: 2.weight, 2.bias\n"
    assert_refused(update, stretto.UserError, text, lambda: update(*BATCH))
    assert update.state_dict()["model"].keys() == model.state_dict().keys()
    model[2].requires_grad_(True)
    model[0].bias.requires_grad_(True)
    text = "these parameters were unfrozen after compile_update: 0.bias\n"
    assert_refused(update, stretto.UserError, text, lambda: update(*BATCH))
    model[0].bias.requires_grad_(False)
    update(*BATCH)
    assert update.count == 1


def test_training_does_not_begin_with_parameters_that_were_frozen():
    model = mlp()
    update = compiled(model, updates_per_launch=2)
    training = update.train([BATCH])
    model[4].bias.requires_grad_(False)
    text = "these parameters were frozen after compile_update: 4.bias\n"
    for call in (lambda: list(training), lambda: update.many(*BATCH), lambda: update.train([BATCH])):
        assert_refused(update, stretto.UserError, text, call)


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
