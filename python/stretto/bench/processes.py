"""Worker processes: started together, commanded one at a time, each with answers of one JSON line."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class WorkerFailed(RuntimeError):
    """A worker could not do what it was asked for."""


class WorkerProcess:
    """A fresh process that runs one system; `module` of this package names the commands that it answers."""

    def __init__(self, module: str, system: str, case: str, log: IO[str]):
        self.system = system
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.{module}", system, case],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def send(self, command: str) -> None:
        """Gives a command without waiting for its answer."""
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerFailed(f"{self.system}: the process ended early; see the log") from error

    def answer(self, seconds: float | None = None) -> dict[str, Any]:
        """Waits for the answer to the one open command, for so long at most; then the process is ended."""
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self._process.kill()
            raise WorkerFailed(f"{self.system}: took longer than allowed")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailed(f"{self.system}: the process ended early; see the log")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(f"{self.system}: {answer['error']}")
        return answer

    def ask(self, command: str, seconds: float | None = None) -> dict[str, Any]:
        """Gives a command and waits for its answer."""
        self.send(command)
        return self.answer(seconds)

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def timed_in_turns(
    workers: Mapping[str, Sequence[WorkerProcess]],
    faults: dict[str, str],
    rounds: int,
    timing: Callable[[str, WorkerProcess], float],
) -> dict[str, list[list[float]]]:
    """Timings by system, process and round. Every round times every process once, in an order that changes.

    `timing` asks a worker of the named system. Systems with faults are left out; new faults are added.
    """
    times = {name: [[] for _ in group] for name, group in workers.items() if name not in faults}
    turns = [(name, index) for name in times for index in range(len(workers[name]))]
    order = random.Random(0)
    for _ in range(rounds):
        order.shuffle(turns)
        for name, index in turns:
            if name in faults:
                continue
            try:
                times[name][index].append(timing(name, workers[name][index]))
            except WorkerFailed as failure:
                faults[name] = str(failure)
    return {name: groups for name, groups in times.items() if name not in faults}


def answer_commands(make: Callable[[], Any]) -> None:
    """In a worker process: a command is a method's name and its arguments. Ends with the input."""
    # Libraries print; the answers need a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = make()
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            answer = getattr(worker, command)(*arguments)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        print(json.dumps(answer), file=answers, flush=True)
