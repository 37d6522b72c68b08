"""One process with one system. It answers commands on standard input with one JSON line each.

start            -> {"seconds": ...}        compiles
check PATH       -> {"ok": true}            writes the logits, or tokens, that follow the check tokens to PATH
time STEPS       -> {"us": ...}             microseconds per token over STEPS launches, back to back
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass

import torch

from . import systems
from .processes import answer_commands
from .shapes import SHAPES, random_model

CHECKED_TOKENS = 24
REFERENCE = "float64"  #: the system whose logits are the yardstick; it is never timed


@dataclass
class Worker:
    """State between commands."""

    name: str
    case: systems.Case
    running: systems.Running | None = None

    def start(self) -> dict[str, float]:
        """Compiles."""
        began = time.perf_counter()
        self.running = systems.start(self.name, self.case)
        torch.cuda.synchronize()
        return {"seconds": time.perf_counter() - began}

    def check(self, path: str) -> dict[str, bool]:
        """Decodes fixed tokens, one by one from position 0."""
        tokens = check_tokens(self.case)
        rows = []
        for at in range(tokens.shape[1]):
            position = torch.tensor([at], device="cuda")
            rows.append(self.running.decode(tokens[:, at : at + 1], position).clone())
        torch.save(torch.stack(rows, dim=1).cpu(), path)
        return {"ok": True}

    def time(self, steps: str) -> dict[str, float]:
        """Times launches between two events of the device."""
        launches = max(int(steps) // self.running.tokens, 1)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(3):
            self.running.launch()
        torch.cuda.synchronize()
        start.record()
        for _ in range(launches):
            self.running.launch()
        end.record()
        end.synchronize()
        return {"us": start.elapsed_time(end) * 1000 / (launches * self.running.tokens)}


class Reference:
    """The yardstick: all positions in one pass, in float64."""

    def __init__(self, case: systems.Case):
        self.case = case

    def start(self) -> dict[str, float]:
        """Nothing to compile."""
        return {"seconds": 0.0}

    @torch.no_grad()
    def check(self, path: str) -> dict[str, bool]:
        """Logits of the check tokens."""
        model = random_model(SHAPES[self.case.model], "cuda").double()
        torch.save(model(input_ids=check_tokens(self.case)).logits.cpu(), path)
        return {"ok": True}


def check_tokens(case: systems.Case) -> torch.Tensor:
    """Tokens [batch, length] that every system decodes before it is timed."""
    generator = torch.Generator().manual_seed(1)
    length = min(CHECKED_TOKENS, case.context)
    vocabulary = SHAPES[case.model].vocabulary
    return torch.randint(0, vocabulary, (case.batch, length), generator=generator).to("cuda")


def _worker() -> Worker | Reference:
    name, case = sys.argv[1], systems.Case(**json.loads(sys.argv[2]))
    return Reference(case) if name == REFERENCE else Worker(name, case)


if __name__ == "__main__":
    answer_commands(_worker)
