"""`decode`: every system makes the same tokens, in turns.

For each case all processes are started; systems that tune themselves compile alone, the others together.
Then each process decodes the check tokens, whose logits must be as close to float64 as eager PyTorch's, and
after that they are timed in rounds: every round times every process once, in an order that changes. Weights
are larger than the L2 cache, so each step reads them from memory.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import torch

from ..checks import ALLOWED_ERROR_RATIO, clear_tokens
from .processes import NOT_MEASURED, WorkerFailed, WorkerProcess, close_all, interval_of, timed_in_turns
from .shapes import SHAPES
from .systems import ABLATIONS, SYSTEMS, Case
from .worker import REFERENCE

YARDSTICK = "eager"  #: the system whose error bounds that of the others


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    processes: int
    rounds: int
    steps: int  #: tokens of one timing
    bandwidth: float  #: bytes/us that this machine reads
    limit: float  #: seconds that a system may take to compile, to be checked, or for one timing
    together: bool  #: systems that tune themselves compile beside others, too


@dataclass(frozen=True)
class Row:
    """One system in one case."""

    model: str
    batch: int
    context: int
    system: str
    median_us: float | None
    ci_low_us: float | None
    ci_high_us: float | None
    fraction_of_bandwidth: float | None
    accuracy: float | None  #: worst position's distance from float64, in units of eager's; None of tokens
    timings: int = 0  #: behind the median
    fault: str | None = None  #: why there is no time


@dataclass
class Findings:
    """What is known of each system so far."""

    faults: dict[str, str] = field(default_factory=dict)
    accuracy: dict[str, float] = field(default_factory=dict)  #: worst error over eager's
    times: dict[str, list[list[float]]] = field(default_factory=dict)  #: us per token by process and round


def measure(case: Case, names: Sequence[str], options: Options, log: IO[str], rows: list[Row]) -> None:
    """Adds a row for each system of one case, also where an exception ends the run."""
    found = Findings()
    wanted = [YARDSTICK, *(name for name in names if name != YARDSTICK)]
    workers: dict[str, list[WorkerProcess]] = {name: [] for name in wanted}
    try:
        for name, group in workers.items():
            group += [WorkerProcess("worker", name, _text(case), log) for _ in range(options.processes)]
        _start(workers, found.faults, options)
        _check(case, workers, found, options.limit, log)

        def timing(name: str, worker: WorkerProcess) -> float:
            steps = options.steps if name != YARDSTICK else max(options.steps // 10, 1)
            return worker.ask(f"time {steps}", options.limit)["us"]

        timed_in_turns(workers, found.faults, options.rounds, timing, found.times)
    finally:
        close_all(worker for group in workers.values() for worker in group)
        rows += [_row(case, name, found, options) for name in names]


def _text(case: Case) -> str:
    return json.dumps(asdict(case))


def _start(workers: dict[str, list[WorkerProcess]], faults: dict[str, str], options: Options) -> None:
    deadline = time.monotonic() + options.limit

    def attempt(name: str, action: Any) -> None:
        try:
            answer = action()
            if answer:
                print(f"  {name}: {answer['seconds']:.0f} s to compile", file=sys.stderr, flush=True)
        except WorkerFailed as failure:
            faults.setdefault(name, str(failure))
            close_all(workers[name])  # the others of the system must not run on beside those that are timed

    alone = [name for name in workers if SYSTEMS[name].tunes and not options.together]
    others = [name for name in workers if name not in alone]
    for name in others:
        for worker in workers[name]:
            attempt(name, lambda worker=worker: worker.send("start"))
    for name in others:
        for worker in workers[name]:
            attempt(name, lambda worker=worker: worker.answer(max(deadline - time.monotonic(), 0)))
    for name in alone:
        for worker in workers[name]:
            attempt(name, lambda worker=worker: worker.ask("start", options.limit))


def _check(
    case: Case, workers: dict[str, list[WorkerProcess]], found: Findings, limit: float, log: IO[str]
) -> None:
    """Finds each system's worst error over eager's; faults for those that are too far from float64, or choose
    other tokens where eager is sure. Without a yardstick nobody is right."""
    judge = WorkerProcess("worker", REFERENCE, _text(case), log)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "logits.pt")

        def outputs(name: str, group: Sequence[WorkerProcess]) -> list[torch.Tensor]:
            """By process; none where the system has a fault."""
            found_here = []
            try:
                for worker in group if name not in found.faults else ():
                    worker.ask(f"check {path}", limit)
                    found_here.append(torch.load(path))
            except WorkerFailed as failure:
                found.faults[name] = str(failure)
                return []
            return found_here

        try:
            reference = outputs(REFERENCE, [judge])
        finally:
            close_all([judge])
        checked = {name: outputs(name, group) for name, group in workers.items()}
    missing = next((name for name in (REFERENCE, YARDSTICK) if name in found.faults), None)
    for name, each in checked.items():
        if missing is not None:
            found.faults.setdefault(name, f"nothing to check against: {found.faults[missing]}")
        elif each:
            _judge(name, each, checked[YARDSTICK][0], reference[0], found)


def _judge(
    name: str,
    outputs: Sequence[torch.Tensor],
    eager: torch.Tensor,
    reference: torch.Tensor,
    found: Findings,
) -> None:
    if outputs[0].dim() == reference.dim():
        ratio = max(error_ratio(output, eager, reference) for output in outputs)
        found.accuracy[name] = ratio
        if not ratio <= ALLOWED_ERROR_RATIO:
            found.faults[name] = f"logits are {ratio:.2f} times as far from float64 as eager's"
    elif wrong := max(wrong_tokens(output, eager, reference) for output in outputs):
        found.faults[name] = f"{wrong} tokens differ where eager is sure of its own"


def error_ratio(logits: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> float:
    """Worst position's distance from float64 over eager's; all are [batch, length, vocabulary]."""

    def worst(found: torch.Tensor) -> float:
        return ((found.double() - reference).norm(dim=-1) / reference.norm(dim=-1)).max().item()

    return worst(logits) / worst(eager)


def wrong_tokens(tokens: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> int:
    """How many of `tokens` [batch, length] differ where eager is sure."""
    expected, clear = clear_tokens(eager, reference)
    return int((clear & (tokens != expected)).sum())


def _row(case: Case, name: str, found: Findings, options: Options) -> Row:
    times, fault = found.times.get(name), found.faults.get(name)
    median, low, high = interval_of(times) if fault is None else (None, None, None)
    shape = SHAPES[case.model]
    bytes_read = shape.weight_bytes() + shape.cache_bytes(case.batch, case.context)
    return Row(
        **asdict(case),
        system=name,
        median_us=median,
        ci_low_us=low,
        ci_high_us=high,
        fraction_of_bandwidth=bytes_read / median / options.bandwidth if median else None,
        accuracy=found.accuracy.get(name),
        timings=sum(len(group) for group in times or ()),
        fault=fault or (None if median else NOT_MEASURED),
    )


def markdown(rows: Sequence[Row]) -> str:
    """For each case a table, fastest first, with what Stretto wins or loses against each system, and one
    with what its parts are worth.
    """
    lines = []
    for case in dict.fromkeys((row.model, row.batch, row.context) for row in rows):
        chosen = [row for row in rows if (row.model, row.batch, row.context) == case]
        ours = min((row.median_us for row in chosen if _is_ours(row) and row.median_us), default=None)
        lines += [
            "",
            f"**{case[0]}, batch {case[1]}, context {case[2]}**",
            "",
            "| system | us per token | 95 % interval | of bandwidth | error / eager's | time / Stretto's |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for row in sorted(chosen, key=lambda row: row.median_us or float("inf")):
            if row.median_us is None:
                lines.append(f"| {row.system} | - | - | - | - | {row.fault} |")
                continue
            accuracy = "same tokens" if row.accuracy is None else f"{row.accuracy:.2f}"
            against = f"{row.median_us / ours:.2f}" if ours else "-"
            lines.append(
                f"| {row.system} | {row.median_us:.1f} | {row.ci_low_us:.1f} to {row.ci_high_us:.1f} "
                f"| {row.fraction_of_bandwidth:.0%} | {accuracy} | {against} |"
            )
        lines += _ablations({row.system: row.median_us for row in chosen if row.median_us})
    return "\n".join(lines).strip() + "\n"


def _ablations(medians: dict[str, float]) -> list[str]:
    found = [
        f"| {part} | {medians[off]:.1f} | {medians[on]:.1f} | {medians[off] / medians[on]:.2f} |"
        for part, off, on in ABLATIONS
        if off in medians and on in medians
    ]
    if not found:
        return []
    return ["", "| without it | us per token | with it | ratio |", "|---|---:|---:|---:|", *found]


def _is_ours(row: Row) -> bool:
    return row.system.startswith("Stretto") and "kernels" not in row.system


def write(rows: Sequence[Row], provenance: dict[str, str], path: Path) -> None:
    """A list of objects, replaced as a whole."""
    objects = [asdict(row) | provenance for row in rows]
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(objects, indent=1) + "\n")
    temporary.replace(path)
