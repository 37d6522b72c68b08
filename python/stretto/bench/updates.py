"""The systems that training updates are measured with."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import stretto
from stretto.objective import capture_objective
from stretto.optimizers import as_optimizers
from stretto.update_program import Recipe, export_update, initial_state

from .workloads import Workload

Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Running:
    """A system ready to train. `launch` runs the next updates and returns their losses [updates], which the
    next launch may overwrite.
    """

    launch: Callable[[], Tensor]
    updates: int = 1
    owner: object = None  #: what must live as long: a graph does not hold the memory of what it replays


def losses(running: Running, count: int) -> list[float]:
    """Of the next `count` updates. Their last launch may run more."""
    found: list[float] = []
    while len(found) < count:
        found += running.launch().float().tolist()
    return found[:count]


def _one_by_one(update: Callable[..., Tensor], samples: Sequence[Batch]) -> Running:
    turns = itertools.cycle(samples)
    return Running(lambda: update(*next(turns)).reshape(1))


class TorchUpdate:
    """PyTorch's update of a model's parameters; `call` runs the model."""

    def __init__(self, workload: Workload, model: nn.Module, compute: torch.dtype, call: Callable):
        self.workload = workload
        self.call = call
        self.mixed = compute == torch.bfloat16
        self.model = model
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = workload.rule.theirs(self.parameters)

    def __call__(self, *batch: Tensor) -> Tensor:
        """Runs the update; returns its loss."""
        device = self.parameters[0].device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.mixed):
            loss = self.workload.objective(self.call, *batch)
        loss.backward()
        if self.workload.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.workload.clip_norm, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def restart(self, *others: Tensor) -> Callable[[], None]:
        """A function that takes the model and other tensors back to what they are now, and the optimizer to
        its beginning.
        """
        restore = restorer([*self.model.parameters(), *self.model.buffers(), *others])

        def restart() -> None:
            restore()
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()

        return restart


@torch.no_grad()
def restorer(tensors: Sequence[Tensor]) -> Callable[[], None]:
    """A function that gives the tensors the values that they have now."""
    values = [tensor.detach().clone() for tensor in tensors]

    @torch.no_grad()
    def restore() -> None:
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)

    return restore


def _captured(updates: Sequence[Callable[[], Tensor]], restart: Callable[[], None]) -> Running:
    """Whole updates, one after the other, as one CUDA graph. State starts anew after the capture."""
    with torch.cuda.stream(torch.cuda.Stream()):
        for update in itertools.islice(itertools.cycle(updates), 3):
            update()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = torch.stack([update().reshape(()) for update in updates])
    restart()
    torch.cuda.synchronize()

    def launch() -> Tensor:
        graph.replay()
        return losses

    return Running(launch, len(updates), owner=(updates, restart))


def reference(workload: Workload, device: str) -> Running:
    """Eager PyTorch in F32."""
    model = workload.model(device).float()
    return _one_by_one(TorchUpdate(workload, model, torch.float32, model), workload.samples(device))


def _eager(workload: Workload, device: str) -> Running:
    model = workload.model(device)
    return _one_by_one(TorchUpdate(workload, model, workload.compute, model), workload.samples(device))


def _compiled_update(workload: Workload, device: str) -> TorchUpdate:
    model = workload.model(device)
    return TorchUpdate(workload, model, workload.compute, torch.compile(model))


def _compiled(workload: Workload, device: str) -> Running:
    return _one_by_one(_compiled_update(workload, device), workload.samples(device))


def _graph(workload: Workload, device: str) -> Running:
    """One update, replayed. Of a sequence it takes the next sample by itself, so that the host copies
    nothing.
    """
    update = _compiled_update(workload, device)
    turn = torch.zeros(1, dtype=torch.int64, device=device)
    batch = workload.batch(device)

    def replayed() -> Tensor:
        if workload.steps is None:
            return update(*batch)
        loss = update(*(part.index_select(0, turn)[0] for part in batch))
        turn.add_(1).remainder_(workload.steps)
        return loss

    return _captured([replayed], update.restart(turn))


def _graph_of_many(workload: Workload, device: str) -> Running:
    update = _compiled_update(workload, device)
    samples = itertools.cycle(workload.samples(device))
    chosen = itertools.islice(samples, workload.updates_of_a_launch)
    return _captured([functools.partial(update, *sample) for sample in chosen], update.restart())


def exported_update(workload: Workload, device: str) -> tuple[nn.Module, Batch, dict[str, Tensor]]:
    """The whole update as one program of PyTorch's operations, as Stretto captures it: a module that runs
    the next update of a launch of several, what to call it with, and the state that it changes. The loss
    comes first of its results.
    """
    recipe = Recipe(
        as_optimizers(workload.rule.ours(workload.clip_norm)),
        updates_per_launch=workload.updates_of_a_launch,
    )
    sample, stacked = workload.samples(device)[0], workload.stacked(device)
    captured = capture_objective(
        workload.model(device), workload.objective, sample, {}, _narrow_type(workload)
    )
    state = initial_state(captured, recipe, 0)
    return export_update(captured, recipe, state, stacked, {}).module(), stacked, state


def _exported(workload: Workload, device: str) -> Running:
    """Inductor joins an outer product with the optimizer's step, and writes a product with one row itself if
    it may tune it.
    """
    program, stacked, state = exported_update(workload, device)
    compiled = torch.compile(program, options={"coordinate_descent_tuning": True})
    restart = restorer(list(state.values()))
    with torch.no_grad():
        return _captured([lambda: compiled(*stacked)[0]] * workload.updates_of_a_launch, restart)


def _narrow_type(workload: Workload) -> torch.dtype | None:
    return None if workload.compute == torch.float32 else workload.compute


def compiled_by_stretto(
    workload: Workload, device: str, updates: int, logits: str = "stored"
) -> stretto.Update:
    """The workload's update, so many in a launch."""
    return stretto.compile_update(
        workload.model(device),
        workload.objective,
        optimizer=workload.rule.ours(workload.clip_norm),
        example=workload.samples(device)[0],
        compute_dtype=_narrow_type(workload),
        updates_per_launch=updates,
        logits=logits,
    )


def _kernels(*, overlapped: bool) -> Callable[[Workload, str], Running]:
    def start(workload: Workload, device: str) -> Running:
        update = compiled_by_stretto(workload, device, workload.steps or 1)
        batch = workload.batch(device)
        kernels = update.step.as_kernels(overlapped=overlapped)
        return _captured([lambda: kernels(*batch)[0]], restorer(list(update.state.values())))

    return start


def _one_launch(workload: Workload, device: str) -> Running:
    return _one_by_one(compiled_by_stretto(workload, device, 1), workload.samples(device))


def _in_strips(workload: Workload, device: str) -> Running:
    return _one_by_one(compiled_by_stretto(workload, device, 1, "strips"), workload.samples(device))


def _many_in_a_launch(workload: Workload, device: str) -> Running:
    update = compiled_by_stretto(workload, device, workload.updates_of_a_launch)
    stacked = workload.stacked(device)
    return Running(lambda: update.many(*stacked), workload.updates_of_a_launch)


SYSTEMS: dict[str, Callable[[Workload, str], Running]] = {
    "eager": _eager,
    "torch.compile": _compiled,
    "torch.compile + graph": _graph,
    "torch.compile + graph of many updates": _graph_of_many,
    "exported update, torch.compile + graph of many updates": _exported,
    "Stretto's tiles as kernels + graph": _kernels(overlapped=False),
    "Stretto's tiles as kernels + graph + PDL": _kernels(overlapped=True),
    "Stretto": _one_launch,
    "Stretto, logits in strips": _in_strips,
    "Stretto, many updates a launch": _many_in_a_launch,
}
#: What is timed unless systems are named: not what trades time for memory.
BY_DEFAULT = [name for name in SYSTEMS if name != "Stretto, logits in strips"]
