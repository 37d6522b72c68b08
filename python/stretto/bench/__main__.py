"""Benchmarks of Stretto against what else runs the same model on this GPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from . import decode, kind, results, train, updates
from .provenance import provenance
from .shapes import SHAPES
from .systems import SYSTEMS, Case
from .workloads import WORKLOADS

H200_BANDWIDTH = 4.5e6  #: bytes/us read from memory by all SMs together
H200_FLOPS = 989e12  #: 16-bit operations/s, dense, by its data sheet


def main() -> int:
    """Runs a benchmark; returns the exit status: 1 where a system has a fault, 130 after an interrupt."""
    arguments = parse(sys.argv[1:])
    if not torch.cuda.is_available():
        print("stretto bench: there is no GPU here; run it on the machine to be measured", file=sys.stderr)
        return 1
    run = {"decode": _decode, "kind": _kind, "train": _train}
    return run[arguments.benchmark](arguments)


def _train(arguments: argparse.Namespace) -> int:
    options = train.Options(
        arguments.processes,
        arguments.rounds,
        arguments.updates,
        arguments.flops,
        arguments.limit,
        arguments.together,
    )
    results.interrupt_after(arguments.stop_after)
    with open(arguments.log, "w") as log:
        return results.run_cases(
            arguments.workloads,
            lambda key, rows: train.measure(key, arguments.systems, options, log, rows),
            train.markdown,
            arguments.json,
        )


def _kind(arguments: argparse.Namespace) -> int:
    chosen = [each for each in kind.PRODUCTS if all(part in each.name for part in arguments.products)]
    rows: list[kind.Row] = []
    results.interrupt_after(arguments.stop_after)
    try:
        for product in chosen:
            rows.append(kind.measure(product, arguments.rounds, arguments.repeats))
            if arguments.json:
                results.write(rows, provenance(), arguments.json)
    except KeyboardInterrupt:
        print(results.STOPPED, file=sys.stderr)
        return 130
    finally:
        print(kind.markdown(rows))
    return 0


def _decode(arguments: argparse.Namespace) -> int:
    options = decode.Options(
        arguments.processes,
        arguments.rounds,
        arguments.steps,
        arguments.bandwidth,
        arguments.limit,
        arguments.together,
    )
    cases = [
        Case(model, batch, context)
        for model in arguments.models
        for batch in arguments.batches
        for context in arguments.contexts
    ]
    results.interrupt_after(arguments.stop_after)
    with open(arguments.log, "w") as log:
        return results.run_cases(
            cases,
            lambda case, rows: decode.measure(case, arguments.systems, options, log, rows),
            decode.markdown,
            arguments.json,
        )


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="stretto bench", description=__doc__)
    commands = parser.add_subparsers(dest="benchmark", required=True)
    command = commands.add_parser(
        "decode",
        description="Times a decode step of each system, in turns, in fresh processes, after a check.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = command.add_argument
    add("--models", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="MODEL", help=", ".join(SHAPES))
    add("--batches", nargs="+", type=int, default=[1])
    add("--contexts", nargs="+", type=int, default=[128], help="rows of the key/value cache, all valid")
    names = {"choices": SYSTEMS, "default": list(SYSTEMS), "metavar": "SYSTEM"}
    add("--systems", nargs="+", **names, help="; ".join(SYSTEMS))
    add("--processes", type=int, default=3, help="fresh processes of each system")
    add("--rounds", type=int, default=10, help="timings of each process")
    add("--steps", type=int, default=50, help="tokens of one timing")
    add("--bandwidth", type=float, default=H200_BANDWIDTH, help="bytes/us that this GPU reads")
    add(
        "--limit",
        type=float,
        default=600,
        help="seconds that a system may take to compile, or for one timing",
    )
    add(
        "--together",
        action="store_true",
        help="let systems that tune themselves compile beside the others: faster, but timings meet",
    )
    add("--json", type=Path, help="write a list of objects, one for each model, case and system")
    _add_stopping(add)
    add("--log", type=Path, default=Path("bench.log"), help="what the processes print")
    _add_kind(commands)
    _add_train(commands)
    return parser.parse_args(words)


def _add_train(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "train",
        description="Times training updates of each system, in turns, in fresh processes, after a check.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = command.add_argument
    add("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="WORKLOAD",
        help=", ".join(WORKLOADS))  # fmt: skip
    add("--systems", nargs="+", choices=updates.SYSTEMS, default=updates.BY_DEFAULT, metavar="SYSTEM",
        help="; ".join(updates.SYSTEMS))  # fmt: skip
    add("--processes", type=int, default=2, help="fresh processes of each system")
    add("--rounds", type=int, default=10, help="timings of each process")
    add("--updates", type=int, default=10, help="updates of one timing")
    add("--flops", type=float, default=H200_FLOPS, help="16-bit operations/s of this GPU's tensor cores")
    add(
        "--limit",
        type=float,
        default=600,
        help="seconds that a system may take to compile, or for one timing",
    )
    add(
        "--together", action="store_true", help="let systems compile beside one another: faster on many cores"
    )
    add("--json", type=Path, help="write a list of objects, one for each workload and system")
    _add_stopping(add)
    add("--log", type=Path, default=Path("bench.log"), help="what the processes print")


def _add_stopping(add: Callable[..., Any]) -> None:
    add("--stop-after", type=int, metavar="SECONDS", help="end the run then, with what it has measured")


def _add_kind(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "kind",
        description="Times the products of training steps, each alone, beside cuBLAS.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    command.add_argument("--products", nargs="*", default=[], help="parts of the names to measure")
    command.add_argument("--rounds", type=int, default=7, help="timings of each")
    command.add_argument("--repeats", type=int, default=50, help="products of one timing")
    command.add_argument("--json", type=Path, help="write a list of objects, one for each product")
    _add_stopping(command.add_argument)


if __name__ == "__main__":
    sys.exit(main())
