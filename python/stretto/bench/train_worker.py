"""One process with one system that trains. It answers commands on standard input with one JSON line each.

start          -> {"seconds": ..., "updates": ...}   compiles; how many updates one launch does
check COUNT    -> {"losses": [...]}                  the losses of the first COUNT updates
time COUNT     -> {"ms": ...}                        milliseconds per update over COUNT updates or more
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
    running: updates.Running | None = None

    def start(self) -> dict[str, float]:
        """Compiles."""
        began = time.perf_counter()
        make = updates.reference if self.system == REFERENCE else updates.SYSTEMS[self.system]
        self.running = make(self.workload, "cuda")
        torch.cuda.synchronize()
        return {"seconds": time.perf_counter() - began, "updates": self.running.updates}

    def check(self, count: str) -> dict[str, list[float]]:
        """Runs the first updates."""
        return {"losses": updates.losses(self.running, int(count))}

    def time(self, count: str) -> dict[str, float]:
        """Times updates between two events of the device, for LEAST_MS at least: the first launch of a series
        has the host's time in it. Sequences are timed as a whole: their steps differ."""
        self.running.launch()
        needed = LEAST_MS / max(self._elapsed_ms(1) / self.running.updates, 1e-3)
        whole = max(self.running.updates, self.workload.steps or 1)
        launches = math.ceil(max(int(count), needed) / whole) * whole // self.running.updates
        return {"ms": self._elapsed_ms(launches) / (launches * self.running.updates)}

    def _elapsed_ms(self, launches: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(launches):
            self.running.launch()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)


if __name__ == "__main__":
    answer_commands(lambda: Worker(sys.argv[1], WORKLOADS[sys.argv[2]]))
