"""One process with one system that trains. It answers commands on standard input with one JSON line each.

start            -> {"seconds": ...}        compiles
check COUNT      -> {"losses": [...]}       the losses of the first COUNT updates
time COUNT       -> {"ms": ...}             milliseconds per update over COUNT updates or more, back to back
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import torch

from . import updates
from .processes import answer_commands
from .workloads import WORKLOADS, Workload

LEAST_MS = 50.0  #: of one timing
REFERENCE = "float32"  #: the system whose losses are the yardstick; it is never timed


@dataclass
class Worker:
    """State between commands."""

    system: str
    workload: Workload
    update: updates.Update | None = None

    def start(self) -> dict[str, float]:
        """Compiles."""
        began = time.perf_counter()
        make = updates.reference if self.system == REFERENCE else updates.SYSTEMS[self.system]
        self.update = make(self.workload)
        torch.cuda.synchronize()
        return {"seconds": time.perf_counter() - began}

    def check(self, count: str) -> dict[str, list[float]]:
        """Runs the first updates."""
        return {"losses": [self.update().item() for _ in range(int(count))]}

    def time(self, count: str) -> dict[str, float]:
        """Times updates between two events of the device, for LEAST_MS at least: the first launch of a series
        has the host's time in it."""
        self.update()
        updates = max(int(count), math.ceil(LEAST_MS / max(self._elapsed_ms(1), 1e-3)))
        return {"ms": self._elapsed_ms(updates) / updates}

    def _elapsed_ms(self, updates: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(updates):
            self.update()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)


if __name__ == "__main__":
    answer_commands(lambda: Worker(sys.argv[1], WORKLOADS[sys.argv[2]]))
