"""How a benchmark runs its processes, with workers that only pretend to measure."""

import dataclasses
import io
import json
import os
import signal
import sys
import types

import pytest
import torch
from stretto.bench import decode, processes, results, train
from stretto.bench.systems import Case

SYSTEMS = ("eager", "Stretto")
CASE = Case("SmolLM2-135M", 1, 128)
TRAIN = train.Options(processes=2, rounds=3, updates=10, flops=1e12, limit=5, together=False)
DECODE = decode.Options(processes=2, rounds=3, steps=50, bandwidth=1e6, limit=5, together=True)
LOSSES = [4.0, 3.0, 2.0]
LOGITS = torch.rand(1, 2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 1


class Script:
    """What pretended workers answer: by system and command, an answer, a function that makes one, or an
    error to raise. A command that is not listed has its usual answer.
    """

    def __init__(self, monkeypatch, **answers):
        self.answers = answers
        self.open = set()
        self.asked = []
        for module in (train, decode):
            monkeypatch.setattr(module, "WorkerProcess", self.start)

    def start(self, module, system, case, log):
        worker = types.SimpleNamespace(system=system, finish=lambda: None)
        worker.close = lambda seconds: self.open.discard(id(worker))
        self.open.add(id(worker))
        sent = []
        worker.send = sent.append
        worker.answer = lambda limit: self.answer(system, sent.pop(0), limit)
        worker.ask = lambda command, limit: self.answer(system, command, limit)
        return worker

    def answer(self, system, command, limit):
        assert limit is not None
        word, *rest = command.split()
        self.asked.append((system, word))
        found = self.answers.get(system, {}).get(word, USUAL[word])
        if isinstance(found, BaseException):
            raise found
        return found(*rest) if callable(found) else found


def saving(logits):
    def check(path):
        torch.save(logits, path)
        return {"ok": True}

    return check


def usual_check(argument):
    return {"losses": LOSSES} if argument.isdigit() else saving(LOGITS.float())(argument)


USUAL = {
    "start": {"seconds": 1.0, "updates": 1},
    "check": usual_check,
    "time": {"ms": 2.0, "us": 2000.0},
}


def measured(kind):
    rows = []
    if kind is train:
        train.measure("mlp", SYSTEMS, TRAIN, io.StringIO(), rows)
    else:
        decode.measure(CASE, SYSTEMS, DECODE, io.StringIO(), rows)
    return {row.system: row for row in rows}


def median(row):
    return row.median_ms if isinstance(row, train.Row) else row.median_us


EXACT = {"float64": {"check": saving(LOGITS)}, "float32": {}}
KINDS = pytest.mark.parametrize("kind", [train, decode])


@KINDS
def test_every_process_is_timed_in_every_round(monkeypatch, kind):
    script = Script(monkeypatch, **EXACT)
    rows = measured(kind)
    assert all(row.fault is None and row.timings == 6 for row in rows.values())
    assert median(rows["Stretto"]) == (2.0 if kind is train else 2000.0)
    assert script.asked.count(("Stretto", "time")) == 6
    assert not script.open


@pytest.mark.parametrize("together", [False, True])
def test_systems_compile_one_after_the_other_or_together(monkeypatch, together):
    script = Script(monkeypatch)
    sent = []
    start = script.start

    def started(module, system, case, log):
        worker = start(module, system, case, log)
        send = worker.send
        worker.send = lambda command: (sent.append((system, len(script.asked))), send(command))
        return worker

    monkeypatch.setattr(train, "WorkerProcess", started)
    rows = []
    train.measure("mlp", SYSTEMS, dataclasses.replace(TRAIN, together=together), io.StringIO(), rows)
    assert all(row.fault is None for row in rows)
    answers_before = [count for system, count in sent if system == "Stretto"]
    assert answers_before == ([0, 0] if together else [3, 3])


@KINDS
@pytest.mark.parametrize("command", ["start", "check", "time"])
def test_a_system_that_fails_leaves_the_others(monkeypatch, kind, command):
    failing = {"Stretto": {command: processes.WorkerFailed("Stretto: out of memory")}}
    script = Script(monkeypatch, **EXACT, **failing)
    rows = measured(kind)
    assert rows["Stretto"].fault == "Stretto: out of memory"
    assert median(rows["Stretto"]) is None
    assert rows["eager"].fault is None
    assert median(rows["eager"]) > 0
    assert not script.open


@KINDS
def test_without_a_yardstick_nothing_is_timed(monkeypatch, kind):
    failure = {"check": processes.WorkerFailed("no memory"), "start": USUAL["start"]}
    script = Script(monkeypatch, float64=failure, float32=failure)
    rows = measured(kind)
    assert all(row.fault.endswith(": no memory") for row in rows.values())
    assert not [asked for asked in script.asked if asked[1] == "time"]


def test_updates_with_other_losses_are_not_timed(monkeypatch):
    wrong = {"check": {"losses": [4.0, 3.0, 2.1]}}
    Script(monkeypatch, Stretto=wrong)
    rows = measured(train)
    assert rows["Stretto"].fault == "losses are off by 3.3% of those of an F32 run"
    assert rows["Stretto"].median_ms is None
    assert rows["Stretto"].loss_error == pytest.approx(0.1 / 3)
    assert rows["eager"].fault is None


def test_logits_far_from_float64_are_not_timed(monkeypatch):
    wrong = {"check": saving(LOGITS.float() + 0.01 * torch.rand(1, 2, 8))}
    Script(monkeypatch, float64={"check": saving(LOGITS)}, Stretto=wrong)
    rows = measured(decode)
    assert "times as far from float64 as eager's" in rows["Stretto"].fault
    assert rows["eager"].accuracy == 1.0


def interrupting(after):
    """An answer of `time` that so many calls later is Ctrl-C."""
    left = [after]

    def time(count):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return USUAL["time"]

    return {name: {"time": time} for name in SYSTEMS}


@KINDS
@pytest.mark.parametrize(("calls", "timed"), [(9, True), (0, False)])
def test_an_interrupt_keeps_what_was_measured(monkeypatch, tmp_path, capsys, kind, calls, timed):
    script = Script(monkeypatch, **EXACT, **interrupting(calls))
    path = tmp_path / "results.json"

    def measure(case, rows):
        if kind is train:
            train.measure("mlp", SYSTEMS, TRAIN, io.StringIO(), rows)
        else:
            decode.measure(CASE, SYSTEMS, DECODE, io.StringIO(), rows)

    assert results.run_cases(["first", "second"], measure, kind.markdown, path) == 130
    rows = json.loads(path.read_text())
    assert [row["system"] for row in rows] == list(SYSTEMS)
    for row in rows:
        assert (row["fault"] is None) == timed
        assert (row["timings"] > 0) == timed
        assert {"date", "torch", "commit", "device"} <= row.keys()
    assert not script.open
    printed = capsys.readouterr()
    assert ("not measured: the run was stopped" in printed.out) == (not timed)
    assert "second" not in printed.err


def test_a_case_that_raises_leaves_the_results_before_it(tmp_path, capsys):
    path = tmp_path / "results.json"
    row = train.Row("Toy", 64, "Stretto", 2.0, 1.9, 2.1, 0.5, 1e-3, 1, 6)

    def measure(case, rows):
        if case == "second":
            raise OSError("no space left")
        rows.append(row)

    with pytest.raises(OSError, match="no space"):
        results.run_cases(["first", "second"], measure, train.markdown, path)
    (kept,) = json.loads(path.read_text())
    assert {"workload", "tokens", "system", "median_ms", "ci_low_ms", "ci_high_ms", "mfu"} <= kept.keys()
    assert "| Stretto | 2.0000 | 1.9000 to 2.1000 |" in capsys.readouterr().out


@pytest.mark.parametrize("fault", [None, "too slow"])
def test_the_status_says_whether_there_were_faults(fault, capsys):
    row = train.Row("Toy", 64, "Stretto", None, None, None, None, None, fault=fault)
    status = results.run_cases(["toy"], lambda case, rows: rows.append(row), train.markdown, None)
    assert status == (0 if fault is None else 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGALRM])
def test_a_run_that_is_told_to_end_is_interrupted(number):
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGALRM)}
    try:
        results.interrupt_after(1000)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    finally:
        signal.alarm(0)
        for each, handler in before.items():
            signal.signal(each, handler)


ECHO = """
import json, sys, time
for line in sys.stdin:
    word = line.strip()
    if word == "die":
        sys.exit(1)
    if word == "sleep":
        time.sleep(60)
    print(json.dumps({"error": "no"} if word == "fail" else {"word": word}), flush=True)
"""


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setattr(processes, "command", lambda *_: [sys.executable, "-S", "-c", ECHO])
    monkeypatch.setattr(processes, "PATIENCE", 0.2)
    made = processes.WorkerProcess("worker", "Toy", "", sys.stderr)
    yield made
    processes.close_all([made])


def test_a_worker_answers_and_ends_with_its_input(worker):
    assert worker.ask("hello", 10) == {"word": "hello"}
    with pytest.raises(processes.WorkerFailed, match="Toy: no"):
        worker.ask("fail", 10)
    assert worker.ask("again", 10) == {"word": "again"}


def test_a_worker_that_ends_is_a_failure(worker):
    with pytest.raises(processes.WorkerFailed, match="Toy: the process ended early; see the log"):
        worker.ask("die", 10)
    with pytest.raises(processes.WorkerFailed, match="ended early"):
        worker.ask("hello", 10)


def test_a_worker_that_takes_too_long_is_ended(worker):
    with pytest.raises(processes.WorkerFailed, match="Toy: took longer than allowed"):
        worker.ask("sleep", 0.1)
    with pytest.raises(processes.WorkerFailed, match="ended early"):
        worker.ask("hello", 10)


def test_workers_that_do_not_end_are_ended_together(worker):
    worker.send("sleep")
    processes.close_all([worker])
    assert worker._process.returncode == -signal.SIGKILL
