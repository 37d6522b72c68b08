"""Rows of results as files, and runs that keep what they have when they are stopped."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .provenance import provenance

STOPPED = "stopped: what was measured so far is kept"


def write(rows: Iterable[Any], origin: dict[str, str], path: Path) -> None:
    """A list of objects, replaced as a whole."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps([asdict(row) | origin for row in rows], indent=1) + "\n")
    temporary.replace(path)


def run_cases(
    cases: Sequence[Any],
    measure: Callable[[Any, list[Any]], None],
    table: Callable[[Sequence[Any]], str],
    path: Path | None,
) -> int:
    """Measures one case after the other; prints the table of each as soon as it is done, and writes all rows
    so far.

    `measure` adds the rows of a case to a list, also where an exception ends it. Returns the exit status:
    130 after an interrupt, else 1 where a row has a fault.
    """
    rows: list[Any] = []
    status = 0
    for case in cases:
        print(case, "...", file=sys.stderr, flush=True)
        before = len(rows)
        try:
            measure(case, rows)
        except KeyboardInterrupt:
            print(STOPPED, file=sys.stderr)
            status = 130
        finally:
            if path is not None and rows:
                write(rows, provenance(), path)
            print(table(rows[before:]), flush=True)
        if status:
            return status
    return 1 if any(row.fault for row in rows) else 0


def interrupt_after(seconds: int | None) -> None:
    """After so many seconds, or when this process is told to end, the run is interrupted as by Ctrl-C."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if seconds is not None:
        signal.signal(signal.SIGALRM, interrupt)
        signal.alarm(seconds)
