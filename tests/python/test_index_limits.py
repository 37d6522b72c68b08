"""Ids that are no row of an embedding: refused where they are on the host, and never read outside of it."""

import pytest
import stretto
import torch
from update_models import gradients

ROWS = 23


class Embedded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(ROWS, 4)

    def forward(self, ids, scale):
        return self.embedding(ids[None]).squeeze(0) * scale


class Shifted(Embedded):
    def forward(self, ids, scale):
        return super().forward(ids + 1, scale)


def loss(model, ids, scale):
    return model(ids, scale).square().mean()


IDS, SCALE = torch.tensor([3, 0, ROWS - 1]), torch.tensor(2.0)
WRONG = [(ROWS, f"holds {ROWS}"), (-1, "holds -1"), (2**62, f"holds {2**62}")]


def with_last(value):
    return torch.cat((IDS[:-1], torch.tensor([value])))


@pytest.fixture(scope="module")
def step():
    return stretto.compile(Embedded(), (IDS, SCALE))


@pytest.fixture(scope="module")
def shifted():
    """A step that adds one to ids, and its model."""
    return stretto.compile(Shifted(), (IDS, SCALE)), Shifted()


@pytest.mark.parametrize("value, found", WRONG)
def test_a_call_refuses_ids_outside_an_embedding(step, value, found):
    with pytest.raises(IndexError, match=f"input 'ids' {found}, the embedding that it indexes has 23 rows"):
        step(with_last(value), SCALE)
    torch.testing.assert_close(step(IDS, SCALE), Embedded()(IDS, SCALE))


def test_a_saved_step_refuses_them_too(step, tmp_path):
    step.save(tmp_path / "m.stretto")
    with pytest.raises(stretto.InputIndexError, match="pass ids from 0 to 22"):
        stretto.load(tmp_path / "m.stretto")(with_last(ROWS), SCALE)


def test_an_update_refuses_them_and_changes_nothing():
    model = Embedded()
    before = model.embedding.weight.detach().clone()
    update = stretto.compile_update(model, loss, optimizer=stretto.SGD(lr=1.0), example=(IDS, SCALE))
    with pytest.raises(IndexError):
        update(with_last(ROWS), SCALE)
    assert torch.equal(model.embedding.weight, before)


def test_batches_of_several_updates_are_refused():
    update = stretto.compile_update(
        Embedded(), loss, optimizer=stretto.SGD(), example=(IDS, SCALE), updates_per_launch=2
    )
    with pytest.raises(IndexError, match="input 'ids' holds 23"):
        update.many(torch.stack((IDS, with_last(ROWS))), SCALE.expand(2))
    with pytest.raises(IndexError, match="batch 1: input 'ids' holds 23"):
        list(update.train([(IDS, SCALE), (with_last(ROWS), SCALE)]))


def test_ids_that_nothing_reads_may_be_anything():
    class Last(Embedded):
        def forward(self, ids, scale):
            return self.embedding(ids[-1:]) * scale

    step = stretto.compile(Last(), (IDS, SCALE))
    ids = IDS.clone()
    ids[0] = -100
    torch.testing.assert_close(step(ids, SCALE), Last()(ids, SCALE))


@pytest.mark.parametrize("value, row", [(ROWS, ROWS - 1), (2**40, ROWS - 1), (-1, ROWS - 1), (-(2**40), 0)])
def test_ids_that_are_computed_read_the_nearest_row(shifted, value, row):
    step, model = shifted
    ids = with_last(value - 1)
    ids[:-1] -= 1
    torch.testing.assert_close(step(ids, SCALE)[-1], (model.embedding.weight[row] * SCALE).detach())


def test_computed_ids_outside_change_no_gradient_but_the_nearest_rows():
    model = Shifted()
    expected = gradients(model, loss, (IDS - 1, SCALE))["embedding.weight"]
    before = model.embedding.weight.detach().clone()
    update = stretto.compile_update(model, loss, optimizer=stretto.SGD(lr=1.0), example=(IDS - 1, SCALE))
    update(with_last(2**40) - 1, SCALE)
    change = before - model.embedding.weight.detach()
    rows = [0, 3]
    torch.testing.assert_close(change[rows], expected[rows])
    others = [row for row in range(ROWS - 1) if row not in rows]
    assert not change[others].any()
