import re
import sys

import pytest
import stretto
import torch
from stretto import update_program
from stretto.check_update import check_update, main
from stretto.checks import StaysFloat64
from update_models import batches, mlp, squared_error


def checked(**options):
    options = {"optimizer": stretto.AdamW(lr=1e-3, clip_norm=1.0), "batches": batches(3)} | options
    return check_update(mlp(), squared_error, **options)


def test_a_right_update_passes():
    check = checked()
    assert check.first is None
    assert check.worst.error <= check.worst.allowed
    assert check.first_region is None
    assert all(region.operation is not None for region in check.regions)
    assert {"loss", "model.0.weight", "optimizer.exp_avg.2.bias"} <= {d.name for d in check.deviations}


def test_bfloat16_is_judged_by_eagers_own_error():
    check = checked(compute_dtype=torch.bfloat16)
    assert check.first is None
    assert check.first_region is None


def matrices(name, parameter):
    return parameter.dim() == 2


def test_what_an_optimizer_rounds_itself_and_averages_are_judged_too():
    optimizer = [stretto.Muon(lr=0.02, params=matrices), stretto.Lion(lr=1e-3)]
    options = {"optimizer": optimizer, "average_decay": 0.9, "skip_non_finite": True}
    check = check_update(mlp(16, depth=1), squared_error, batches=batches(3, width=16), **options)
    assert check.first is None, str(check.first)
    assert check.first_region is None
    assert {"average.0.weight", "optimizer.momentum_buffer.0.weight"} <= {d.name for d in check.deviations}


def test_a_float64_reference_stays_float64_where_an_objective_rounds():
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)

    def loss(x):
        return torch.log_softmax(x.float(), 1, dtype=torch.float32)[:, 0].sum()

    with StaysFloat64():
        (gradient,) = torch.autograd.grad(loss(x), x)
    (exact,) = torch.autograd.grad(torch.log_softmax(x, 1)[:, 0].sum(), x)
    assert gradient.equal(exact)


def test_the_first_tensor_that_is_off_is_named(monkeypatch):
    # The compiled program gets one gradient that is a thousandth too large.
    gradients = update_program._gradients

    def slightly_wrong(*arguments):
        total, weight, found, changed = gradients(*arguments)
        if torch._guards.detect_fake_mode(tuple(found.values())) is not None:
            found["2.weight"] = found["2.weight"] * 1.001
        return total, weight, found, changed

    monkeypatch.setattr(update_program, "_gradients", slightly_wrong)
    first = checked(optimizer=stretto.AdamW(lr=1e-3)).first
    assert (first.update, first.name) == (0, "optimizer.exp_avg.2.weight")
    assert first.error == pytest.approx(1e-3, rel=0.01)
    assert str(first).startswith("update 0: optimizer.exp_avg.2.weight is 0.001 from float64")


def test_the_command_checks_what_a_file_describes(tmp_path, capsys):
    file = tmp_path / "described.py"
    file.write_text(
        "import sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "import stretto\n"
        "from update_models import batches, mlp, squared_error\n"
        "def small():\n"
        "    return {'model': mlp(), 'objective': squared_error, 'optimizer': stretto.SGD(lr=0.1),\n"
        "            'batches': batches(4)}\n"
    )
    assert main([f"{file}:small", "--updates", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 updates agree with PyTorch" in out
    assert re.search(r"^(\d+) of \1 tensors between regions are results of PyTorch's operations", out)


WRONG = {
    "gone.py:check": "gone.py: there is no such file",
    "{file}:other": "{file} has no function 'other'",
    "{file}:nothing": "nothing of {file} must return a dict of check_update's arguments: "
    "it has no model, objective, optimizer, batches\n",
    "{file}:without_batches": "there is no batch to check the update with",
}


@pytest.mark.parametrize("where", WRONG)
def test_the_command_says_what_it_cannot_check(where, tmp_path, capsys):
    file = tmp_path / "described.py"
    file.write_text(
        "def nothing():\n    return None\n"
        "def without_batches():\n"
        "    return {'model': None, 'objective': None, 'optimizer': None, 'batches': []}\n"
    )
    assert main([where.format(file=file)]) == 2
    assert capsys.readouterr().err.startswith("stretto: " + WRONG[where].format(file=file))
