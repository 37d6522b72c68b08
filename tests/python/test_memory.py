"""What is said where memory is short, before anything has changed."""

import copy
import re

import pytest
import stretto
import torch
from stretto import memory
from stretto.update_program import Recipe
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
    limit(100_000)
    with pytest.raises(stretto.UserError) as error:
        batch = batches(1, rows=2048, width=8)[0]
        stretto.compile_update(model, squared_error, optimizer=stretto.SGD(), example=batch)
    text = str(error.value)
    assert "100.0 kB are free beside its parameters and state" in text
    rows = re.search(r"a batch of about (\d+) fits, this one has 2048: .* accumulate=True", text)[1]
    assert 0 < int(rows) < 1024
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
    parameters = dict(mlp(8).named_parameters())  # three of 8 x 8, three of 8
    vectors = stretto.SGD(momentum=0.9, params=lambda name, p: p.dim() == 1)
    recipe = Recipe((vectors, stretto.AdamW()), average_decay=0.9)
    assert memory.state_bytes(parameters, recipe) == 3 * 4 * (64 * (2 + 1) + 8 * (1 + 1))
