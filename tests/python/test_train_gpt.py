"""The training example: its curve against eager PyTorch, and going on from a checkpoint."""

import copy
import csv
import sys

import pytest
import stretto
import torch
import train_gpt

SHAPE = train_gpt.Shape(width=32, layers=2, heads=2, context=32, batch=2)
CPU = torch.device("cpu")
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
    given = train_gpt.batches(DATA, SHAPE, CPU)
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
    example = next(train_gpt.batches(DATA, SHAPE, CPU))
    update = stretto.compile_update(
        model, train_gpt.objective, optimizer=train_gpt.optimizer(), example=(example,)
    )
    losses = []
    train_gpt.train(update, DATA, UPDATES, SHAPE, lambda step, loss, norm: losses.append(loss), CPU)
    eager = eager_losses(copy.deepcopy(start))
    gap = max(abs(ours - theirs) for ours, theirs in zip(losses, eager, strict=True))
    # Each update may move the loss by one more rounding of it.
    assert gap <= UPDATES * 2**-24 * losses[0]
    assert losses[-1] < 0.6 * losses[0]


def test_the_example_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(train_gpt, "Shape", lambda: SHAPE)
    log, saved = tmp_path / "log.csv", tmp_path / "state.pt"
    for updates, resume in ((2, []), (4, ["--resume", str(saved)])):
        options = ["--updates", str(updates), "--csv", str(log), "--checkpoint", str(saved), *resume]
        monkeypatch.setattr(sys, "argv", ["train_gpt.py", *options])
        train_gpt.main()
    rows = list(csv.reader(log.open()))
    assert [int(row[0]) for row in rows] == [0, 1, 2, 3]
    assert int(torch.load(saved)["update"]["step"]) == 4


def test_an_interrupt_keeps_the_last_whole_update(tmp_path, monkeypatch):
    monkeypatch.setattr(train_gpt, "Shape", lambda: SHAPE)

    def interrupted(update, data, updates, shape, report, device):
        given = train_gpt.batches(data, shape, device)
        update(next(given))
        raise KeyboardInterrupt

    monkeypatch.setattr(train_gpt, "train", interrupted)
    saved = tmp_path / "state.pt"
    options = ["--csv", str(tmp_path / "log.csv"), "--checkpoint", str(saved)]
    monkeypatch.setattr(sys, "argv", ["train_gpt.py", *options])
    train_gpt.main()
    assert int(torch.load(saved)["update"]["step"]) == 1
