"""Worker processes: started together, commanded one at a time, each with answers of one JSON line."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any

from .statistics import median_interval

NOT_MEASURED = "not measured: the run was stopped"
PATIENCE = 10.0  #: seconds that processes have to end by themselves


class WorkerFailed(RuntimeError):
    """A worker could not do what it was asked for."""


def command(module: str, system: str, case: str) -> list[str]:
    """What runs a worker: a module of this package."""
    return [sys.executable, "-m", f"{__package__}.{module}", system, case]


class WorkerProcess:
    """A fresh process that runs one system; `module` of this package names the commands that it answers."""

    def __init__(self, module: str, system: str, case: str, log: IO[str]):
        self.system = system
        self._process = subprocess.Popen(
            command(module, system, case),
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
        except (OSError, ValueError) as error:  # the latter where the input was closed
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

    def finish(self) -> None:
        """Ends the input, after which the process ends by itself."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self, seconds: float) -> None:
        """Waits for the end of the process, for so long at most; then it is ended."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def close_all(workers: Iterable[WorkerProcess]) -> None:
    """Ends the processes, together."""
    workers = list(workers)
    for worker in workers:
        worker.finish()
    deadline = time.monotonic() + PATIENCE
    for worker in workers:
        worker.close(max(deadline - time.monotonic(), 0))


def timed_in_turns(
    workers: Mapping[str, Sequence[WorkerProcess]],
    faults: dict[str, str],
    rounds: int,
    timing: Callable[[str, WorkerProcess], float],
    times: dict[str, list[list[float]]],
) -> None:
    """Adds timings by system, process and round to `times`: every round times every process once, in an
    order that changes. What an exception leaves there are the rounds so far.

    `timing` asks a worker of the named system. Systems with faults are left out; new faults are added.
    """
    turns = [
        (name, index) for name, group in workers.items() if name not in faults for index in range(len(group))
    ]
    order = random.Random(0)
    for _ in range(rounds):
        order.shuffle(turns)
        for name, index in turns:
            if name in faults:
                continue
            try:
                elapsed = timing(name, workers[name][index])
            except WorkerFailed as failure:
                faults[name] = str(failure)
                continue
            times.setdefault(name, [[] for _ in workers[name]])[index].append(elapsed)


def interval_of(groups: Sequence[Sequence[float]] | None) -> tuple[float, float, float] | tuple[None] * 3:
    """Median and its interval of timings by process and round; nothing where a process has none."""
    measured = groups and all(len(group) > 0 for group in groups)
    return median_interval(groups) if measured else (None, None, None)


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
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        print(json.dumps(answer), file=answers, flush=True)
