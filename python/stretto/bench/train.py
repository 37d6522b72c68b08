"""`train`: every system does the same updates, in turns.

For each workload all processes are started. Each then does the same first updates, as many as a launch of
many has, whose losses must stay close to those of an F32 run; after that they are timed in rounds: every
round times every process once, in an order that changes. Every system starts from the same F32 master
weights and has the same optimizer.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from .processes import NOT_MEASURED, WorkerFailed, WorkerProcess, close_all, interval_of, timed_in_turns
from .train_worker import REFERENCE
from .workloads import WORKLOADS, Workload

#: Distance from the F32 run's losses relative to their mean. Computing in bf16 rounds each loss by some 2
#: ** -9, and moves the weights that the next one is computed with.
LOSS_TOLERANCE = 2e-2


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    processes: int
    rounds: int
    updates: int  #: of one timing, at least
    flops: float  #: 16-bit operations per second of this GPU's tensor cores
    limit: float  #: seconds that a system may take to compile, to be checked, or for one timing
    together: bool  #: systems compile beside one another


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
    loss_error: float | None  #: largest distance from the losses of the F32 run, relative to their mean
    updates_per_launch: int | None = None
    timings: int = 0  #: behind the median
    fault: str | None = None


@dataclass
class Findings:
    """What is known of each system so far."""

    faults: dict[str, str] = field(default_factory=dict)
    updates: dict[str, int] = field(default_factory=dict)  #: of one launch
    errors: dict[str, float] = field(default_factory=dict)
    times: dict[str, list[list[float]]] = field(default_factory=dict)  #: ms per update by process and round


def measure(key: str, systems: Sequence[str], options: Options, log: IO[str], rows: list[Row]) -> None:
    """Adds a row for each system of one workload, also where an exception ends the run."""
    found = Findings()
    workers: dict[str, list[WorkerProcess]] = {name: [] for name in (REFERENCE, *systems)}
    try:
        for name, group in workers.items():
            count = 1 if name == REFERENCE else options.processes
            group += [WorkerProcess("train_worker", name, key, log) for _ in range(count)]
        _start(workers, found, options)
        _check(WORKLOADS[key].updates_of_a_launch, workers, found, options.limit)
        close_all(workers.pop(REFERENCE))
        command = f"time {options.updates}"
        timed_in_turns(
            workers,
            found.faults,
            options.rounds,
            lambda _, worker: worker.ask(command, options.limit)["ms"],
            found.times,
        )
    finally:
        close_all(worker for group in workers.values() for worker in group)
        rows += [_row(WORKLOADS[key], name, found, options) for name in systems]


def _start(workers: dict[str, list[WorkerProcess]], found: Findings, options: Options) -> None:
    """One system after the other, its processes together: compilers share few processors badly."""
    waiting = [list(workers)] if options.together else [[name] for name in workers]
    for names in waiting:
        for name in names:
            with contextlib.suppress(WorkerFailed):  # its answer says so
                for worker in workers[name]:
                    worker.send("start")
        for name in names:
            _take_answers(name, workers[name], found, options.limit)


def _take_answers(name: str, group: list[WorkerProcess], found: Findings, limit: float) -> None:
    try:
        answers = [worker.answer(limit) for worker in group]
    except WorkerFailed as failure:
        found.faults[name] = str(failure)
        close_all(group)  # the others of the system must not run on beside those that are timed
        return
    found.updates[name] = answers[0]["updates"]
    seconds = max(answer["seconds"] for answer in answers)
    print(f"  {name}: {seconds:.0f} s to compile", file=sys.stderr, flush=True)


def _check(updates: int, workers: dict[str, list[WorkerProcess]], found: Findings, limit: float) -> None:
    def losses(name: str) -> list[list[float]]:
        """By process; none where the system has a fault."""
        try:
            if name not in found.faults:
                return [worker.ask(f"check {updates}", limit)["losses"] for worker in workers[name]]
        except WorkerFailed as failure:
            found.faults[name] = str(failure)
        return []

    expected = losses(REFERENCE)
    for name in workers:
        if name == REFERENCE:
            continue
        if not expected:
            found.faults.setdefault(name, f"no losses to check: {found.faults[REFERENCE]}")
        for each in losses(name):
            error = max(found.errors.get(name, 0.0), loss_error(each, expected[0]))
            found.errors[name] = error
            if not error <= LOSS_TOLERANCE:
                found.faults[name] = f"losses are off by {error:.1%} of those of an F32 run"


def loss_error(losses: Sequence[float], expected: Sequence[float]) -> float:
    """Largest distance over the mean; infinite where a loss is not finite."""
    errors = [abs(found - wanted) for found, wanted in zip(losses, expected, strict=True)]
    mean = sum(abs(wanted) for wanted in expected) / len(expected)
    return max(errors) / mean if all(math.isfinite(error) for error in errors) else float("inf")


def _row(workload: Workload, system: str, found: Findings, options: Options) -> Row:
    times, fault = found.times.get(system), found.faults.get(system)
    median, low, high = interval_of(times) if fault is None else (None, None, None)
    return Row(
        workload.name,
        workload.tokens,
        system,
        median,
        low,
        high,
        workload.operations / (median / 1e3) / options.flops if median else None,
        found.errors.get(system),
        found.updates.get(system),
        sum(len(group) for group in times or ()),
        fault or (None if median else NOT_MEASURED),
    )


def markdown(rows: Sequence[Row]) -> str:
    """A table for each workload, its systems fastest first, with what Stretto wins or loses against each."""
    lines = []
    for name in dict.fromkeys(row.workload for row in rows):
        chosen = [row for row in rows if row.workload == name]
        ours = min((row.median_ms for row in chosen if _is_ours(row) and row.median_ms), default=None)
        lines += [
            "",
            f"**{name}**",
            "",
            "| system | ms per update | 95 % interval | MFU | updates a launch "
            "| error of losses | time / Stretto's |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for row in sorted(chosen, key=lambda row: row.median_ms or float("inf")):
            if row.median_ms is None:
                lines.append(f"| {row.system} | - | - | - | - | - | {row.fault} |")
                continue
            against = f"{row.median_ms / ours:.2f}" if ours else "-"
            lines.append(
                f"| {row.system} | {row.median_ms:.4f} | {row.ci_low_ms:.4f} to {row.ci_high_ms:.4f} "
                f"| {row.mfu:.2%} | {row.updates_per_launch} | {row.loss_error:.1e} | {against} |"
            )
    return "\n".join(lines).strip() + "\n"


def _is_ours(row: Row) -> bool:
    return row.system.startswith("Stretto") and "kernels" not in row.system
