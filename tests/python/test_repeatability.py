import hashlib
import os
import subprocess
import sys
from pathlib import Path

import check_repeatability
import pytest
import stretto
import torch
from models import FAMILIES, random_tokens, small_model
from rich.progress import Progress
from stretto.checks import decode_logits


def digest(family, backend="cpu", machine="h200"):
    step = stretto.compile(
        small_model(family), batch_size=1, max_cache_len=32, backend=backend, machine=machine
    )
    logits = decode_logits(step, random_tokens(1, 6))
    parts = (step.plan.encode(), step.source.encode(), logits.float().numpy().tobytes())
    return [hashlib.sha256(part).hexdigest() for part in parts]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_step_run_twice_gives_the_same_bits(family):
    step = stretto.compile(small_model(family), batch_size=1, max_cache_len=32)
    first, second = (decode_logits(step, random_tokens(1, 8)) for _ in range(2))
    assert first.isfinite().all()
    assert first.equal(second)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fresh_process_gives_the_same_plan_source_and_bits(family):
    root = Path(__file__).parents[2]
    script = f"import test_repeatability as t; print(*t.digest({family!r}))"
    paths = ":".join(str(root / folder) for folder in ("python", "scripts", "tests/python"))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", script]
    other = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert other.stdout.split() == digest(family)


def test_a_saved_step_gives_the_same_bits(tmp_path):
    model, tokens = small_model("llama"), random_tokens(1, 6)
    step = stretto.compile(model, batch_size=1, max_cache_len=32)
    step.save(tmp_path / "model.stretto")
    logits = decode_logits(step, tokens)
    loaded = stretto.load(tmp_path / "model.stretto")
    assert decode_logits(loaded, tokens).equal(logits)
    assert loaded.decoder == step.decoder


def test_the_check_runs_fresh_processes_and_many_passes(monkeypatch, capsys):
    arguments = "check --context 12 --processes 2 --together 2 --steps 100"
    monkeypatch.setattr(sys, "argv", arguments.split())
    assert check_repeatability.main() == 0
    report = capsys.readouterr().out
    assert "2 fresh processes: 1 different result(s)" in report
    assert "108 steps in 9 passes" in report
    assert "0 pass(es) with other tokens" in report


def test_the_check_counts_passes_with_other_tokens(monkeypatch):
    passes = iter([[5, 6], [5, 6], [5, 7], [5, 6]])
    monkeypatch.setattr(check_repeatability, "one_pass", lambda _: torch.tensor([next(passes)]))
    each = 2 + check_repeatability.PROMPT - 1
    assert check_repeatability.soak(None, 4 * each, Progress(disable=True)) == (4 * each, 4, 1)
