"""What is said where memory is short, before anything has changed."""

import copy
import re

import pytest
import stretto
import torch
from stretto import memory
from update_models import batches, mlp, squared_error

BATCH = batches(1)[0]


@pytest.fixture
def limit(monkeypatch):
    """Sets how much memory is free."""

    def set_to(count):
        monkeypatch.setattr(memory, "free_bytes", lambda device: count)

    return set_to


def compiled(model, **options):
    options = {"optimizer": stretto.AdamW()} | options
    return stretto.compile_update(model, squared_error, example=BATCH, **options)


def test_an_update_that_does_not_fit_names_a_batch_that_does_and_changes_nothing(limit):
    model = mlp(8)
    before = copy.deepcopy(model.state_dict())
    options = {"optimizer": stretto.SGD(), "example": batches(1, rows=2048, width=8)[0]}
    arena = stretto.compile_update(mlp(8), squared_error, **options).step.statistics["arena_bytes"]
    limit(arena)  # but not for the tasks as well
    with pytest.raises(stretto.UserError) as error:
        stretto.compile_update(model, squared_error, **options)
    text = str(error.value)
    assert f"{arena / 1e3:.1f} kB are free beside its parameters and state" in text
    rows = int(re.search(r"a batch of about (\d+) fits, this one has 2048: .* accumulate=True", text)[1])
    assert 1024 < rows < 2048
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_a_state_that_does_not_fit_is_refused_before_it_is_made(limit):
    limit(1000)
    with pytest.raises(stretto.UserError, match=r"the state of the optimizer needs .* kB of memory, 1\.0 kB"):
        compiled(mlp())


def test_a_program_is_refused_when_memory_is_gone_by_its_first_launch(limit):
    step = stretto.compile(lambda x: torch.softmax(x @ x.T, 0) @ x, torch.randn(64, 64))
    limit(1000)
    with pytest.raises(stretto.UserError, match=r"the program needs .* of memory, 1.0 kB are free"):
        step(torch.randn(64, 64))
    limit(None)
    step(torch.randn(64, 64))


def test_bytes_of_state_are_counted_by_optimizer():
    model = mlp()
    update = compiled(model, average_decay=0.9)
    recipe = update._recipe
    parameters = dict(model.named_parameters())
    kept = [t for name, t in update.state.items() if name.startswith(("optimizer.", "average."))]
    assert memory.state_bytes(parameters, recipe) == sum(t.nbytes for t in kept)
