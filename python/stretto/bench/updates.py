"""The systems that training updates are measured with. Each gives a function that runs one update and returns
its loss."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

import stretto

from .workloads import Workload

LEARNING_RATE = 1e-4

Update = Callable[[], Tensor]


class TorchUpdate:
    """PyTorch's update of a model's parameters; `call` runs the model."""

    def __init__(self, workload: Workload, model: nn.Module, compute: torch.dtype, call: Callable):
        self.workload = workload
        self.call = call
        self.mixed = compute == torch.bfloat16
        self.batch = workload.batch()
        self.parameters = list(model.parameters())
        rate = torch.tensor(LEARNING_RATE, device="cuda")
        self.optimizer = torch.optim.AdamW(self.parameters, lr=rate, fused=True, capturable=True)

    def __call__(self) -> Tensor:
        """Runs the update; returns its loss."""
        with torch.autocast("cuda", torch.bfloat16, enabled=self.mixed):
            loss = self.workload.objective(self.call, *self.batch)
        loss.backward()
        if self.workload.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.workload.clip_norm, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


class CapturedUpdate:
    """A whole update as one CUDA graph. Parameters and optimizer start anew after the capture."""

    def __init__(self, update: TorchUpdate):
        self.update = update  # a graph does not hold the memory of what it replays
        start = [copy.deepcopy(parameter.detach()) for parameter in update.parameters]
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                update()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = update()
        with torch.no_grad():
            for parameter, value in zip(update.parameters, start, strict=True):
                parameter.copy_(value)
            for state in update.optimizer.state.values():
                for value in state.values():
                    value.zero_()

    def __call__(self) -> Tensor:
        """Runs the update; returns its loss, which the next one overwrites."""
        self.graph.replay()
        return self.loss


def reference(workload: Workload) -> Update:
    """Eager PyTorch in F32."""
    model = workload.model()
    return TorchUpdate(workload, model, torch.float32, model)


def _eager(workload: Workload) -> Update:
    model = workload.model()
    return TorchUpdate(workload, model, workload.compute, model)


def _compiled(workload: Workload) -> TorchUpdate:
    model = workload.model()
    return TorchUpdate(workload, model, workload.compute, torch.compile(model))


def _captured(workload: Workload) -> Update:
    return CapturedUpdate(_compiled(workload))


def _one_launch(workload: Workload) -> Update:
    batch = workload.batch()
    update = stretto.compile_update(
        workload.model(),
        workload.objective,
        optimizer=stretto.AdamW(lr=LEARNING_RATE, clip_norm=workload.clip_norm),
        example=batch,
        compute_dtype=None if workload.compute == torch.float32 else workload.compute,
    )
    return lambda: update(*batch)


SYSTEMS: dict[str, Callable[[Workload], Update]] = {
    "eager": _eager,
    "torch.compile": _compiled,
    "torch.compile + graph": _captured,
    "Stretto": _one_launch,
}
