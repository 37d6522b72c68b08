"""A launch that runs beside the host."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from .step import Step


class BackgroundLaunch:
    """A launch of `step` that `begin` starts: queued on CUDA, in a thread elsewhere."""

    def __init__(self, step: Step, begin: Callable[[], None]):
        self._step = step
        self._begin = begin
        self._event: torch.cuda.Event | None = None
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        if step.device.type == "cuda":
            begin()
            self._event = torch.cuda.current_stream(step.device).record_event()
        else:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def is_over(self) -> bool:
        """Has it ended, well or not?"""
        if self._event is not None:
            return self._event.query()
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Returns when the launch is over. Raises RunError if it failed."""
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure
        self._step.synchronize()

    def _run(self) -> None:
        try:
            self._begin()
        except Exception as failure:  # raised again where the launch is waited for
            self._failure = failure
