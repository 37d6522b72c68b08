"""Plans with choices made by hand or by timed runs compute what the untuned plan computes."""

import pytest
import stretto
import torch


class Counting(torch.nn.Module):
    """A layer over a running sum."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(48, 24).requires_grad_(False)
        self.register_buffer("total", torch.randn(3, 48))

    def forward(self, x):
        self.total.add_(x)
        return self.layer(self.total)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("STRETTO_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_choices_of_the_planner_are_carried_out_and_kept(tmp_path):
    model, x = Counting(), torch.randn(3, 48)
    expected = model.layer(model.total + x)
    step = stretto.compile(model, x, plan="workers=1")
    assert step.statistics["workers"] == 1
    torch.testing.assert_close(step(x), expected)
    step.save(tmp_path / "model.stretto")
    assert stretto.load(tmp_path / "model.stretto").plan_options == step.plan_options == "workers=1"


def test_a_tuned_step_computes_what_the_model_computes(cache):
    model, x = Counting(), torch.randn(3, 48)
    before = model.total.clone()
    step = stretto.compile(model, x, tune=20)
    assert torch.equal(model.total, before)
    torch.testing.assert_close(step(x), model.layer(before + x))
    torch.testing.assert_close(model.total, before + x)
    again = stretto.compile(model, x, plan=step.plan_options)
    assert again.plan == step.plan
    assert list((cache / "tune").iterdir())


def test_what_cannot_be_chosen_is_said():
    x = torch.randn(2, 8)
    with pytest.raises(stretto.UserError, match=r"plan option 'luck=1': write NAME=VALUE"):
        stretto.compile(torch.nn.Linear(8, 8), x, plan="luck=1")
    with pytest.raises(stretto.UserError, match="tune searches from the usual plan"):
        stretto.compile(torch.nn.Linear(8, 8), x, plan="workers=1", tune=1)
