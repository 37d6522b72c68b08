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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import torch

from ..checks import ALLOWED_ERROR_RATIO, clear_tokens
from .processes import WorkerFailed, WorkerProcess, timed_in_turns
from .shapes import SHAPES
from .statistics import median_interval
from .systems import SYSTEMS, Case
from .worker import REFERENCE

YARDSTICK = "eager"  #: the system whose error bounds that of the others


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    processes: int
    rounds: int
    steps: int  #: tokens of one timing
    bandwidth: float  #: bytes/us that this machine reads
    limit: float  #: seconds that a system may take to compile
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
    fault: str | None  #: why there is no time


def measure(case: Case, names: Sequence[str], options: Options, log: IO[str]) -> list[Row]:
    """All systems of one case."""
    wanted = [YARDSTICK, *(name for name in names if name != YARDSTICK)]
    workers = {
        name: [WorkerProcess("worker", name, json.dumps(asdict(case)), log) for _ in range(options.processes)]
        for name in wanted
    }
    faults: dict[str, str] = {}
    try:
        _start(workers, faults, options)
        accuracy = _check(case, workers, faults, log)
        times = _time(workers, faults, options)
    finally:
        for worker in (each for group in workers.values() for each in group):
            worker.close()
    return [
        _row(case, name, times.get(name), accuracy.get(name), faults.get(name), options) for name in names
    ]


def _start(workers: dict[str, list[WorkerProcess]], faults: dict[str, str], options: Options) -> None:
    deadline = time.monotonic() + options.limit

    def attempt(name: str, action: Any) -> None:
        try:
            answer = action()
            if answer:
                print(f"  {name}: {answer['seconds']:.0f} s to compile", file=sys.stderr, flush=True)
        except WorkerFailed as failure:
            faults.setdefault(name, str(failure))

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
    case: Case, workers: dict[str, list[WorkerProcess]], faults: dict[str, str], log: IO[str]
) -> dict[str, float]:
    """Each system's worst error over eager's; faults for those that are too far from float64, or choose other
    tokens where eager is sure."""
    accuracy = {}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "logits.pt")

        def output_of(worker: WorkerProcess) -> torch.Tensor:
            worker.ask(f"check {path}")
            return torch.load(path)

        judge = WorkerProcess("worker", REFERENCE, json.dumps(asdict(case)), log)
        try:
            reference = output_of(judge)
        finally:
            judge.close()
        eager = output_of(workers[YARDSTICK][0])
        for name, group in workers.items():
            if name in faults:
                continue
            try:
                outputs = [output_of(worker) for worker in group]
            except WorkerFailed as failure:
                faults[name] = str(failure)
                continue
            if outputs[0].dim() == reference.dim():
                accuracy[name] = max(error_ratio(output, eager, reference) for output in outputs)
                if not accuracy[name] <= ALLOWED_ERROR_RATIO:
                    faults[name] = f"logits are {accuracy[name]:.2f} times as far from float64 as eager's"
            elif wrong := max(wrong_tokens(output, eager, reference) for output in outputs):
                faults[name] = f"{wrong} tokens differ where eager is sure of its own"
    return accuracy


def error_ratio(logits: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> float:
    """Worst position's distance from float64 over eager's; all are [batch, length, vocabulary]."""

    def worst(found: torch.Tensor) -> float:
        return ((found.double() - reference).norm(dim=-1) / reference.norm(dim=-1)).max().item()

    return worst(logits) / worst(eager)


def wrong_tokens(tokens: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> int:
    """How many of `tokens` [batch, length] differ where eager is sure."""
    expected, clear = clear_tokens(eager, reference)
    return int((clear & (tokens != expected)).sum())


def _time(
    workers: dict[str, list[WorkerProcess]], faults: dict[str, str], options: Options
) -> dict[str, list[list[float]]]:
    """Microseconds per token by system, process and round."""

    def timing(name: str, worker: WorkerProcess) -> float:
        steps = options.steps if name != YARDSTICK else max(options.steps // 10, 1)
        return worker.ask(f"time {steps}")["us"]

    return timed_in_turns(workers, faults, options.rounds, timing)


def _row(
    case: Case,
    name: str,
    times: list[list[float]] | None,
    accuracy: float | None,
    fault: str | None,
    options: Options,
) -> Row:
    median, low, high = median_interval(times) if times else (None, None, None)
    shape = SHAPES[case.model]
    bytes_read = shape.weight_bytes() + shape.cache_bytes(case.batch, case.context)
    fraction = bytes_read / median / options.bandwidth if median else None
    return Row(**asdict(case), system=name, median_us=median, ci_low_us=low, ci_high_us=high,
               fraction_of_bandwidth=fraction, accuracy=accuracy, fault=fault)  # fmt: skip


def markdown(rows: Sequence[Row]) -> str:
    """One table for each case, fastest first, with what Stretto wins or loses against each system."""
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
    return "\n".join(lines).strip() + "\n"


def _is_ours(row: Row) -> bool:
    return row.system.startswith("Stretto") and "kernels" not in row.system


def write(rows: Sequence[Row], provenance: dict[str, str], path: Path) -> None:
    """A list of objects, replaced as a whole."""
    objects = [asdict(row) | provenance for row in rows]
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(objects, indent=1) + "\n")
    temporary.replace(path)
