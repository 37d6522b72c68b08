import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import stretto
from models import FAMILIES, random_tokens, small_model
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
    here = Path(__file__).parent
    script = f"import test_repeatability as t; print(*t.digest({family!r}))"
    paths = f"{here}:{here.parent.parent / 'python'}"
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
