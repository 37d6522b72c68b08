"""`train`: every system does the same updates, in turns.

For each workload all processes are started. Each then does the same first updates, whose losses must stay
close to those of an F32 run; after that they are timed in rounds: every round times every process once, in an
order that changes. Every system starts from the same F32 master weights and updates with AdamW.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from .processes import WorkerFailed, WorkerProcess, timed_in_turns
from .statistics import median_interval
from .train_worker import REFERENCE
from .workloads import WORKLOADS, Workload

CHECKED_UPDATES = 4
#: Distance from the F32 run's losses relative to them. Computing in bf16 rounds each loss by some 2 ** -9,
#: and moves the weights that the next one is computed with.
LOSS_TOLERANCE = 2e-2


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    processes: int
    rounds: int
    updates: int  #: of one timing
    flops: float  #: 16-bit operations per second of this GPU's tensor cores
    limit: float  #: seconds that a system may take to compile


@dataclass(frozen=True)
class Row:
    """One system as measured. A row with a fault has no times."""

    workload: str
    tokens: int
    system: str
    median_ms: float | None
    ci_low_ms: float | None
    ci_high_ms: float | None
    mfu: float | None  #: share of the GPU's 16-bit operations that the model's products need
    loss_error: float | None  #: largest relative distance from the losses of the F32 run
    fault: str | None = None


def measure(key: str, systems: Sequence[str], options: Options, log: IO[str]) -> list[Row]:
    """All systems of one workload."""
    workers = {
        name: [WorkerProcess("train_worker", name, key, log) for _ in range(options.processes)]
        for name in (REFERENCE, *systems)
    }
    faults: dict[str, str] = {}
    try:
        _start(workers, faults, options.limit)
        errors = _check(workers, faults)
        times = _time(workers, faults, options)
    finally:
        for worker in (each for group in workers.values() for each in group):
            worker.close()
    return [
        _row(WORKLOADS[key], name, times.get(name), errors.get(name), faults.get(name), options)
        for name in systems
    ]


def _start(workers: dict[str, list[WorkerProcess]], faults: dict[str, str], limit: float) -> None:
    """One system after the other, its processes together: compilers share the processor badly."""
    for name, group in workers.items():
        try:
            for worker in group:
                worker.send("start")
            seconds = max(worker.answer(limit)["seconds"] for worker in group)
            print(f"  {name}: {seconds:.0f} s to compile", file=sys.stderr, flush=True)
        except WorkerFailed as failure:
            faults[name] = str(failure)


def _check(workers: dict[str, list[WorkerProcess]], faults: dict[str, str]) -> dict[str, float]:
    def losses(worker: WorkerProcess) -> list[float]:
        return worker.ask(f"check {CHECKED_UPDATES}")["losses"]

    expected = losses(workers[REFERENCE][0])
    errors = {}
    for name, group in workers.items():
        if name in faults or name == REFERENCE:
            continue
        try:
            errors[name] = max(loss_error(losses(worker), expected) for worker in group)
        except WorkerFailed as failure:
            faults[name] = str(failure)
            continue
        if not errors[name] <= LOSS_TOLERANCE:
            faults[name] = f"losses are off by {errors[name]:.1%} of those of an F32 run"
    return errors


def loss_error(losses: Sequence[float], expected: Sequence[float]) -> float:
    """Largest relative distance; infinite where a loss is not finite."""
    errors = [abs(found / wanted - 1) for found, wanted in zip(losses, expected, strict=True)]
    return max(errors) if all(error == error for error in errors) else float("inf")


def _time(
    workers: dict[str, list[WorkerProcess]], faults: dict[str, str], options: Options
) -> dict[str, list[list[float]]]:
    """Milliseconds per update by system, process and round."""
    timed = {name: group for name, group in workers.items() if name != REFERENCE}
    return timed_in_turns(
        timed, faults, options.rounds, lambda _, worker: worker.ask(f"time {options.updates}")["ms"]
    )


def _row(
    workload: Workload,
    system: str,
    times: list[list[float]] | None,
    error: float | None,
    fault: str | None,
    options: Options,
) -> Row:
    median, low, high = median_interval(times) if times else (None, None, None)
    mfu = workload.operations / (median / 1e3) / options.flops if median else None
    return Row(workload.name, workload.tokens, system, median, low, high, mfu, error, fault)


def write(rows: Sequence[Row], origin: dict[str, str], path: Path) -> None:
    """A list of objects, replaced as a whole."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps([asdict(row) | origin for row in rows], indent=1) + "\n")
    temporary.replace(path)


def markdown(rows: Sequence[Row]) -> str:
    """One table, a workload's systems fastest first, with what Stretto wins or loses against each."""
    lines = [
        "| workload | system | ms per update | 95 % interval | MFU | time / Stretto's |",
        "|---|---|---:|---:|---:|---:|",
    ]
    ours = {row.workload: row.median_ms for row in rows if row.system == "Stretto" and row.median_ms}
    for name in dict.fromkeys(row.workload for row in rows):
        chosen = [row for row in rows if row.workload == name]
        for row in sorted(chosen, key=lambda row: row.median_ms or float("inf")):
            if row.median_ms is None:
                lines.append(f"| {name} | {row.system} | - | - | - | {row.fault} |")
                continue
            against = f"{row.median_ms / ours[name]:.2f}" if name in ours else "-"
            interval = f"{row.ci_low_ms:.3f} to {row.ci_high_ms:.3f}"
            lines.append(
                f"| {name} | {row.system} | {row.median_ms:.3f} | {interval} | {row.mfu:.1%} | {against} |"
            )
    return "\n".join(lines) + "\n"
