"""A compiled training update: what it computes, and the state that it keeps."""

import copy
import io

import pytest
import stretto
import torch
from update_models import (
    assert_gradients_as_close_as_eager,
    assert_same_trajectory,
    batches,
    eager_losses,
    mlp,
    squared_error,
    summed_error,
)


class TwoWeights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = torch.nn.Parameter(torch.tensor(0.5))
        self.w2 = torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.w2 * (self.w1 * x)


def half_square(model, x, t):
    return 0.5 * (model(x) - t) ** 2


def test_the_two_weight_example_is_exact():
    model = TwoWeights()
    batch = (torch.tensor(2.0), torch.tensor(1.0))
    update = stretto.compile_update(model, half_square, optimizer=stretto.SGD(lr=0.1), example=batch)
    assert update(*batch).item() == 0.125
    assert model.w1.item() == torch.tensor(0.35).item()
    assert model.w2.item() == torch.tensor(1.45).item()
    assert round(update(*batch).item(), 5) == 0.00011


def test_gradients_of_an_mlp_are_as_close_to_float64_as_eagers():
    assert_gradients_as_close_as_eager(mlp(256), squared_error, batches(1, rows=64, width=256)[0])


def classification(model, x, labels):
    return torch.nn.functional.cross_entropy(model(x), labels)


def test_the_gradient_of_cross_entropy_looks_at_one_place_of_a_row():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 37)
    labels = torch.randint(0, 37, (64,))
    labels[::5] = -100  # ignored
    batch = (torch.randn(64, 8), labels)
    assert_gradients_as_close_as_eager(model, classification, batch)
    update = stretto.compile_update(model, classification, optimizer=stretto.SGD(lr=0.1), example=batch)
    over_rows = [line for line in update.plan.splitlines() if "= reduce" in line and "[64, 37]" in line]
    assert over_rows
    assert all("_log_softmax" in line for line in over_rows), over_rows


def test_twenty_updates_of_an_mlp_follow_eager():
    given = batches(20, rows=64, width=256)
    ours = stretto.AdamW(lr=1e-3)
    assert_same_trajectory(ours, lambda p: torch.optim.AdamW(p, lr=1e-3), given, model=mlp(256))


def compiled_mlp(**options):
    model = mlp()
    options = {"optimizer": stretto.AdamW(lr=1e-2)} | options
    return model, stretto.compile_update(model, squared_error, example=batches(1)[0], **options)


@pytest.fixture(scope="module")
def shared():
    return compiled_mlp()


def values(update):
    return {name: tensor.clone() for name, tensor in update.state.items()}


def assert_equal_bits(left, right):
    assert left.keys() == right.keys()
    different = [name for name in left if not torch.equal(left[name], right[name])]
    assert not different


def test_a_resumed_run_has_the_bits_of_an_unbroken_one():
    given = batches(6)
    _, whole = compiled_mlp()
    for batch in given:
        whole(*batch)
    _, first = compiled_mlp()
    for batch in given[:3]:
        first(*batch)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    _, second = compiled_mlp()
    second.load_state_dict(torch.load(file))
    for batch in given[3:]:
        second(*batch)
    assert_equal_bits(values(whole), values(second))


def test_whatever_an_update_keeps_is_resumed_with_the_same_bits():
    def rate(step):
        return 0.01 * torch.clamp((step + 1) / 4, max=1.0)

    torch.manual_seed(0)
    layers = (torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.25))
    muon = stretto.Muon(lr=rate, params=lambda name, parameter: parameter.dim() == 2, clip_norm=1.0)
    given = batches(8, width=16)
    update = stretto.compile_update(
        torch.nn.Sequential(*layers),
        summed_error,
        optimizer=(muon, stretto.Lion(lr=1e-3)),
        example=given[0],
        accumulate=True,
        loss_scale=stretto.LossScale(2.0**10, interval=2),
        average_decay=0.9,
    )

    def saved():
        file = io.BytesIO()
        torch.save(update.state_dict(), file)
        file.seek(0)
        return file

    def run(begin, end):
        for number in range(begin, end):
            (update.accumulate if number % 2 == 0 else update)(*given[number])

    start = saved()
    run(0, 8)
    whole = values(update)
    update.load_state_dict(torch.load(start))
    run(0, 5)  # between two microbatches
    middle = saved()
    run(0, 8)
    update.load_state_dict(torch.load(middle))
    run(5, 8)
    assert_equal_bits(values(update), whole)


def assert_go_on_alike(update, model, eager, optimizer, given):
    """A few updates of 1e-2 each, whose direction Adam makes of two averages, lead to the same parameters."""
    eager_losses(eager, squared_error, optimizer, given)
    for batch in given:
        update(*batch)
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_torch_optimizer_goes_on_from_the_state():
    given = batches(6)
    model, update = compiled_mlp()
    for batch in given[:3]:
        update(*batch)
    eager = mlp()
    state = copy.deepcopy(update.state_dict())
    eager.load_state_dict(state["model"])
    optimizer = torch.optim.AdamW(eager.parameters())
    optimizer.load_state_dict(state["optimizers"][0])
    assert optimizer.param_groups[0]["lr"] == 1e-2
    assert_go_on_alike(update, model, eager, optimizer, given[3:])


def test_an_update_goes_on_from_the_state_of_a_torch_optimizer():
    given = batches(4)
    eager = mlp()
    optimizer = torch.optim.AdamW(eager.parameters(), lr=1e-2)
    eager_losses(eager, squared_error, optimizer, given[:2])
    model, update = compiled_mlp(optimizer=stretto.AdamW(lr=1.0))
    state = update.state_dict()
    state |= {"model": eager.state_dict(), "optimizers": [optimizer.state_dict()]}
    state["update"] = state["update"] | {"step": torch.tensor(2)}
    update.load_state_dict(state)
    assert_go_on_alike(update, model, eager, optimizer, given[2:])


def test_equal_runs_have_equal_bits():
    runs = []
    for _ in range(2):
        _, update = compiled_mlp()
        for batch in batches(3):
            update(*batch)
        runs.append(values(update))
    assert_equal_bits(*runs)


def test_several_updates_of_one_launch_are_those_of_several_launches():
    given = batches(6)
    model, update = compiled_mlp(updates_per_launch=3)
    plain, single = compiled_mlp()
    stacked = [[torch.stack(part) for part in zip(*given[at : at + 3], strict=True)] for at in (0, 3)]
    losses = torch.cat([update.many(*three) for three in stacked])
    expected = torch.stack([single(*batch) for batch in given])
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=0)
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        # Six updates of 1e-2 each, whose direction Adam makes of two averages.
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert update.count == 6


def test_a_launch_of_several_updates_says_what_it_takes(shared):
    _, update = compiled_mlp(updates_per_launch=3)
    with pytest.raises(stretto.UserError, match=r"takes 3 batches\n  call update\.many .* or update\.train"):
        update(*batches(1)[0])
    with pytest.raises(stretto.UserError, match=r"compiled for \(3, 16, 32\)"):
        update.many(*batches(1)[0])
    with pytest.raises(stretto.UserError, match="takes one batch"):
        shared[1].many(*batches(1)[0])


def test_the_models_own_parameters_change(shared):
    model, update = shared
    before = model[0].weight.clone()
    update(*batches(1)[0])
    assert not torch.equal(model[0].weight, before)
    assert model[0].weight.requires_grad


def test_a_setting_changes_without_compiling(shared):
    model, update = shared
    update.set(lr=0.0, weight_decay=0.0)
    before = values(update)
    update(*batches(1)[0])
    update.set(lr=1e-2, weight_decay=1e-2)
    assert torch.equal(model[0].weight, before["model.0.weight"])
    assert not torch.equal(update.state["optimizer.exp_avg.0.weight"], before["optimizer.exp_avg.0.weight"])


def test_an_update_counts_itself(shared):
    _, update = shared
    before = update.count
    update(*batches(1)[0])
    assert update.count == before + 1


def test_an_update_shows_its_plan(shared):
    _, update = shared
    assert "task" in update.plan
    assert "run<Kinds" in update.source
    assert "us" in update.explain()
    assert update.step.verify() == []
