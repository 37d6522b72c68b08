"""Updates one after the other in long launches, while the host feeds them and looks on.

The launch takes its batches from a ring in device memory. A reader thread fills free slots from the caller's
iterator; a driver thread grants filled slots to the launch, which ends by itself where none is granted, so
that it never waits for the host. Losses come back through host memory as updates are done.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .background import BackgroundLaunch
from .capture import split_inputs
from .errors import RunError, UserError
from .index_limits import check_indices
from .step import Step
from .torch_types import check_input

if TYPE_CHECKING:
    from .update import Update

T = TypeVar("T")

# Between two looks at the progress of a launch.
_POLL_SECONDS = 50e-6
_DONE = 0x7FFFFFFF  #: the bits of a progress word that count


@dataclass(frozen=True)
class Report:
    """One update that is done."""

    number: int  #: from 0; a run that goes on from a state counts on
    loss: float  #: before the update
    gradient_norm: float | None  #: before clipping; None where the update has no use for it


@dataclass(frozen=True)
class _End:
    failure: BaseException | None


class Training:
    """What `Update.train` returns. Iterate over it: a report of each update as soon as it is done.

    The updates go on while the caller's loop works on a report. Leaving the loop (by break, an exception,
    Ctrl-C) ends them behind the update that runs: the state is that of the last whole update. Iterating
    once more gives the reports that were not taken.
    """

    def __init__(self, update: Update, batches: Iterable[Any], updates: int | None):
        self._update = update
        self._step = update.step
        self._batches = itertools.islice(batches, updates)
        self._slots = update.updates_per_launch
        self._first = int(update.state["draws"])
        self._losses = update.state["losses"]
        self._norms = update.state.get("norms")
        on_cuda = self._step.device.type == "cuda"
        self._granted, self._progress = torch.zeros(2, 1, dtype=torch.int32, pin_memory=on_cuda)
        self._stream = torch.cuda.current_stream(self._step.device) if on_cuda else None
        self._copies = torch.cuda.Stream(self._step.device) if on_cuda else None
        self._ring = _Ring(self._step)
        self._free = threading.Semaphore(self._slots)
        self._reports: queue.SimpleQueue[Report | _End] = queue.SimpleQueue()
        self._changed = threading.Condition()  # guards what follows
        self._filled = 0
        self._done = 0
        self._fed = False
        self._stopping = False
        self._failure: BaseException | None = None
        self._errands: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._driver = threading.Thread(target=self._drive, daemon=True)
        self._has_started = False
        self._has_ended = False
        self.is_between_updates = True  #: may others touch the state?

    def __iter__(self) -> Iterator[Report]:
        self._start()
        try:
            while True:
                report = self._reports.get()
                if isinstance(report, _End):
                    self._reports.put(report)
                    if report.failure is not None:
                        raise report.failure
                    return
                yield report
        finally:
            self.stop()

    def stop(self) -> None:
        """Ends the updates behind the one that runs; returns when it is done."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._free.release()
        if self._has_started:
            self._driver.join()
            self._reader.join()

    def between_updates(self, function: Callable[[], T]) -> T:
        """What `function` returns: it is called behind the update that runs, before the next one begins.

        It may read and change everything that the update holds. It runs in a thread of its own.
        """
        if threading.current_thread() is self._driver:
            return function()
        errand: Future[T] = Future()
        with self._changed:
            if self._has_ended or not self._has_started:
                return function()
            self._errands.append((function, errand))
            self._changed.notify_all()
        return errand.result()

    def state_dict(self) -> dict[str, Any]:
        """A copy of `Update.state_dict` in host memory, from between two updates.

        The next update waits for a copy within device memory only, where there is room for one.
        """
        copied, ready = self.between_updates(self._copied_state)
        if ready is None:
            return copied
        aside = torch.cuda.Stream(self._step.device)  # batches do not wait for it
        with torch.cuda.stream(aside):
            aside.wait_event(ready)
            return _mapped(copied, Tensor.cpu)

    def set(self, **settings: float) -> None:
        """`Update.set` between two updates."""
        self.between_updates(lambda: self._update.set(**settings))

    def _copied_state(self) -> tuple[dict[str, Any], torch.cuda.Event | None]:
        state = self._update.state_dict()
        if self._stream is None:
            return _mapped(state, Tensor.clone), None
        try:
            return _mapped(state, Tensor.clone), self._stream.record_event()
        except torch.OutOfMemoryError:
            return _mapped(state, Tensor.cpu), None

    def _start(self) -> None:
        if self._has_started or self._stopping:
            if not self._has_started:
                self._reports.put(_End(None))
            return
        self._update.begin_training(self)
        self._has_started = True
        if self._copies is not None:
            self._copies.wait_stream(self._stream)  # the ring's memory may have been used before
        self._reader.start()
        self._driver.start()

    # The reader thread.

    def _read(self) -> None:
        failure = None
        try:
            with self._on(self._copies), torch.no_grad():
                for number, batch in enumerate(self._batches):
                    given = self._ring.checked(batch, self._first + number)
                    self._free.acquire()
                    if self._stopping:
                        return
                    self._ring.write(number % self._slots, given)
                    if self._copies is not None:
                        self._copies.synchronize()
                    with self._changed:
                        self._filled += 1
                        self._changed.notify_all()
        except BaseException as raised:  # raised again behind the reports of the batches before
            failure = raised
        finally:
            with self._changed:
                self._fed = True
                self._failure = self._failure or failure
                self._changed.notify_all()

    # The driver thread.

    def _drive(self) -> None:
        with self._on(self._stream), torch.no_grad():
            try:
                while self._has_work():
                    self._run_errands()
                    if self._filled > self._done and not self._stopping:
                        self._launch()
            except BaseException as raised:
                self._fail(raised)
            self._update.end_training()
            with self._changed:
                self._has_ended = True
            self._run_errands()
            self._reports.put(_End(self._failure))

    def _has_work(self) -> bool:
        """Waits for a batch or an errand. False: nothing follows."""
        with self._changed:
            while not (self._errands or self._stopping or self._fed or self._filled > self._done):
                self._changed.wait()
            return bool(self._errands) or (self._filled > self._done and not self._stopping)

    def _run_errands(self) -> None:
        while True:
            with self._changed:
                if not self._errands:
                    return
                function, errand = self._errands.pop(0)
            try:
                errand.set_result(function())
            except BaseException as raised:
                errand.set_exception(raised)

    def _launch(self) -> None:
        """One launch: it ends where the ring is empty, or somebody wants something else."""
        base = self._done
        self._granted.fill_(self._filled - base)
        self._progress.zero_()
        self.is_between_updates = False
        launch = BackgroundLaunch(
            self._step,
            lambda: self._step.repeat_granted(self._ring.inputs, self._granted, self._progress),
        )
        is_over = False
        while not is_over:
            is_over = launch.is_over()  # before the look at its progress, which is the last one then
            self._collect(base + (int(self._progress) & _DONE))
            goes_on = not (self._stopping or self._errands)
            self._granted.fill_(self._filled - base if goes_on else 0)
            if not is_over:
                time.sleep(_POLL_SECONDS)
        launch.wait()
        self.is_between_updates = True

    def _collect(self, done: int) -> None:
        """Reports what is done, and frees its slots."""
        for number in range(self._done, done):
            slot = number % self._slots
            loss = self._losses[slot].item()
            norm = None if self._norms is None else self._norms[slot].item()
            self._reports.put(Report(self._first + number, loss, norm))
            if not math.isfinite(loss) and not self._update.skips_non_finite:
                self._fail(
                    RunError(
                        f"the loss of update {self._first + number} is {loss}, and the state is lost\n"
                        "  compile with skip_non_finite=True: such an update then leaves the state as it is"
                    )
                )
            self._free.release()
        self._done = done

    def _fail(self, failure: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or failure
            self._stopping = True
        self._free.release()

    @contextlib.contextmanager
    def _on(self, stream: torch.cuda.Stream | None) -> Iterator[None]:
        with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
            yield


class _Ring:
    """Batches in device memory: the inputs of an update of several batches."""

    def __init__(self, step: Step):
        self._step = step
        self._targets = {
            position: (slot, torch.empty(slot.shape, dtype=slot.dtype, device=step.device))
            for slot, position in step.given_slots
        }
        #: for `Step.repeat_granted`
        self.inputs: dict[int, Tensor] = {position: ring for position, (_, ring) in self._targets.items()}

    def checked(self, batch: Any, number: int) -> list[Any]:
        """The leaves of a batch. Raises UserError naming the batch and what does not fit."""
        try:
            given = self._step.flatten(*split_inputs(batch))
            for position, (slot, _) in self._targets.items():
                check_input(slot.name, given[position], slot.dtype, slot.shape[1:])
                if slot.name in self._step.index_limits:
                    check_indices(slot.name, given[position], self._step.index_limits[slot.name])
        except UserError as error:
            raise type(error)(f"batch {number}: {error}") from None
        return given

    def write(self, at: int, given: list[Any]) -> None:
        """Copies a batch into slot `at`."""
        for position, (_, ring) in self._targets.items():
            ring[at].copy_(given[position])


def _mapped(state: dict[str, Any], function: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """`state` with a copy of each of its tensors."""
    return pytree.tree_map(lambda leaf: function(leaf.detach()) if isinstance(leaf, Tensor) else leaf, state)
