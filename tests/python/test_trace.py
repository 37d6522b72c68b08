import json

import pytest
import stretto
import torch
from models import random_tokens, small_model
from stretto.checks import decode_logits


@pytest.fixture
def step():
    return stretto.compile(small_model("llama"), batch_size=1, max_cache_len=32)


def inputs(position=0):
    return {"input_ids": random_tokens(1, 1), "cache_position": torch.tensor([position])}


def test_a_trace_has_every_task_once_and_in_order(step):
    trace = step.trace(**inputs())
    assert trace.backend == "cpu"
    assert sorted(task.task for task in trace.tasks) == list(range(step.statistics["tasks"]))
    latest = {}
    for task in trace.tasks:
        times = [task.begun, task.ready, task.staged, task.computed, task.published]
        assert times == sorted(times)
        assert times[0] >= latest.get(task.worker, 0)
        latest[task.worker] = times[-1]
    assert max(latest.values()) == trace.total


def test_a_trace_is_a_launch_like_any_other():
    tokens = random_tokens(1, 4)
    plain, traced = (stretto.compile(small_model("llama"), batch_size=1, max_cache_len=32) for _ in range(2))
    logits = decode_logits(plain, tokens)
    for at in range(3):
        traced.trace(input_ids=tokens[:, at : at + 1], cache_position=torch.tensor([at]))
    last = traced(input_ids=tokens[:, 3:], cache_position=torch.tensor([3]))[:, -1]
    assert last.equal(logits[:, -1])


def test_a_trace_says_where_the_time_went(step, tmp_path):
    trace = step.trace(**inputs())
    assert f"a launch on cpu: {trace.total:.1f} us measured" in trace.summary()
    assert trace.hops().splitlines()[-1].split()[0] == f"{trace.total:.2f}"
    trace.save(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum("times" in event.get("args", {}) for event in events) == step.statistics["tasks"]


def test_a_trace_outlives_its_step():
    trace = stretto.compile(small_model("llama"), batch_size=1, max_cache_len=32).trace(**inputs())
    assert all(task.region for task in trace.tasks)


def test_the_reference_backend_keeps_no_times():
    step = stretto.compile(small_model("llama"), batch_size=1, max_cache_len=32, backend="reference")
    with pytest.raises(stretto.UserError, match="on the cpu or cuda backend"):
        step.trace(**inputs())
