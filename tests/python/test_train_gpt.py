"""The training example: its curve against eager PyTorch, and going on from a checkpoint."""

import copy
import csv
import sys

import pytest
import stretto
import torch
import train_gpt

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPE = train_gpt.Shape(width=32, layers=2, heads=2, context=32, batch=2)
# A text that does not change when somebody edits the documentation.
DATA = torch.tensor(list((train_gpt.ROOT / "LICENSE").read_bytes()))
UPDATES = 200


@pytest.fixture(scope="module")
def start():
    torch.manual_seed(0)
    return train_gpt.Gpt(SHAPE)


def eager_losses(model):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], weight_decay=0.1
    )
    given = train_gpt.batches(DATA, SHAPE)
    losses = []
    for step in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min((step + 1) / 20, 1)
        optimizer.zero_grad()
        loss = train_gpt.objective(model, next(given))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_two_hundred_updates_of_a_gpt_follow_eager(start):
    model = copy.deepcopy(start)
    example = next(train_gpt.batches(DATA, SHAPE))
    update = stretto.compile_update(
        model,
        train_gpt.objective,
        optimizer=train_gpt.optimizer(),
        example=(example,),
        updates_per_launch=8,
    )
    losses = []
    given = train_gpt.batches(DATA, SHAPE)
    assert train_gpt.train(update, given, UPDATES, lambda report: losses.append(report.loss))
    eager = eager_losses(copy.deepcopy(start))
    gap = max(abs(ours - theirs) for ours, theirs in zip(losses, eager, strict=True))
    # Each update may move the loss by one more rounding of it.
    assert gap <= UPDATES * 2**-24 * losses[0]
    assert losses[-1] < 0.6 * losses[0]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the example with options; its files are in `tmp_path`."""
    monkeypatch.setattr(train_gpt, "Shape", lambda: SHAPE)
    monkeypatch.chdir(tmp_path)

    def started(*options):
        monkeypatch.setattr(sys, "argv", ["train_gpt.py", "--csv", "log.csv", *options])
        train_gpt.main()

    return started


def numbers():
    with open("log.csv") as file:
        return [int(row[0]) for row in csv.reader(file)]


def test_the_example_goes_on_from_its_checkpoint(run):
    run("--updates", "3", "--checkpoint", "state.pt", "--every", "2")
    run("--updates", "5", "--checkpoint", "state.pt", "--resume", "state.pt")
    assert numbers() == [0, 1, 2, 3, 4]
    assert int(torch.load("state.pt")["update"]["step"]) == 5


def test_an_interrupt_keeps_the_last_whole_update(run, monkeypatch):
    class Interrupted(train_gpt.Log):
        def __call__(self, report):
            super().__call__(report)
            if report.number == 4:
                raise KeyboardInterrupt

    monkeypatch.setattr(train_gpt, "Log", Interrupted)
    run("--updates", "1000000", "--checkpoint", "state.pt")
    done = int(torch.load("state.pt")["update"]["step"])
    assert 5 <= done < 1000
    assert numbers() == list(range(done))


def test_tensorboard_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(SystemExit, match="--tensorboard needs the package tensorboard"):
        train_gpt.board(train_gpt.Path("runs"))
