"""A compiled step: what it is made of, and calling it with tensors."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from . import _core, memory, nvrtc
from .decoder import DecoderShape
from .errors import InputTypeError, UserError
from .index_limits import IndexLimit, check_indices
from .signature import Signature
from .torch_types import check_input, host_reference, torch_type

_ALIGNMENT = 16  #: bytes
_ENDLESS = 2**30  #: iterations


_Compiled = TypeVar("_Compiled", _core.Kernel, _core.Executor)


@dataclass(frozen=True)
class Slot:
    """A buffer of the plan that is bound from outside."""

    index: int
    name: str
    role: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    def is_kept(self, tensors: dict[str, torch.Tensor]) -> bool:
        """Does the step hold its tensor? Otherwise each call gives it, or gets it."""
        return self.role == "parameter" or (self.role == "state" and self.name in tensors)


@dataclass(frozen=True)
class RegionValue:
    """What a region stores for other regions."""

    region: str
    buffer: str
    value: torch.Tensor


@dataclass(frozen=True)
class _Bound:
    """An executor, and the addresses of the states that it was made with."""

    executor: _core.Executor
    states: tuple[int, ...]


class Step:
    """A program that runs as one launch. Call it like the model or function that it was compiled from.

    Inputs must have the dtypes, shapes and device of the example inputs. Every call returns fresh output
    tensors. State (a key/value cache, for example) is updated in place in the model's own buffers. Calls
    are safe from several threads and take turns.
    """

    def __init__(
        self,
        program: _core.Program,
        signature: Signature,
        tensors: dict[str, torch.Tensor],
        device: torch.device,
        backend: str,
        *,
        launches: str = "one",
        packed_weights: bool = False,
    ):
        self._program = program
        self._signature = signature
        self._tensors = tensors
        self._device = device
        self._backend = backend
        self._launches = launches
        self._packs_weights = packed_weights and backend == "cuda"
        self._versions = 0  #: of the parameters that packed copies were made of
        self._warnings: list[str] = []
        self._executors: dict[bool, _Bound] = {}  # by: does it keep times?
        self._last_stream: int | None = None
        self._lock = threading.Lock()
        slots = _outer_slots(program)
        positions = {slot: at for at, slot in enumerate(signature.inputs) if isinstance(slot, str)}
        self._numbers = {slot.name: slot.index for slot in slots}
        self._outputs = [slot for slot in slots if slot.role == "output"]
        self._kept = [slot for slot in slots if slot.is_kept(tensors)]
        self._given = [
            (slot, positions[slot.name])
            for slot in slots
            if slot.role != "output" and not slot.is_kept(tensors)
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one launch. On CUDA it is queued on the current stream and the call returns at once."""
        return self.repeat(1, *args, **kwargs)

    def repeat(self, iterations: int, *args: Any, **kwargs: Any) -> Any:
        """Runs the step so many times in one launch, with the same inputs; returns the last outputs.

        State carries from one iteration to the next on the device: the host takes no part in between.
        """
        given = self._signature.flatten(args, kwargs)
        with self._lock:
            results = self._launch(given, iterations)
        return self._signature.unflatten(results)

    def repeat_until(self, stop: str, iterations: int, progress: torch.Tensor) -> None:
        """Starts one launch of a step without inputs, of at most `iterations`; outputs are dropped.

        The state `stop`, a bool of one element, ends the launch after the iteration that leaves it true.
        `progress`, an int32 of one element in host memory (pinned on CUDA), counts iterations as they are
        done: what they wrote to host memory is there before. It is negative once no other follows (its
        highest bit is set). On CUDA the call returns at once.
        """
        with self._lock:
            self._launch([], iterations, stop=self._numbers[stop], progress=progress.data_ptr())

    def repeat_granted(
        self, inputs: Mapping[int, torch.Tensor], granted: torch.Tensor, progress: torch.Tensor
    ) -> None:
        """Starts one launch that goes on as long as `granted` is more than the iterations that are done.

        `inputs` are those of `given_slots` by position; the host may write into them what iterations to come
        read. `granted` is an int32 like `progress` of `repeat_until`. The first iteration runs always, and
        so may one more that begins while the host lowers `granted`. Outputs are dropped. On CUDA the call
        returns at once.
        """
        with self._lock:
            self._launch(inputs, _ENDLESS, progress=progress.data_ptr(), granted=granted.data_ptr())

    def flatten(self, *call: Any) -> list[Any]:
        """The arguments of a call, (args, kwargs), by position. Raises UserError where they do not fit."""
        return self._signature.flatten(*call)

    @property
    def given_slots(self) -> list[tuple[Slot, int]]:
        """What every call gives, and at which position of `flatten`."""
        return list(self._given)

    def trace(self, *args: Any, **kwargs: Any) -> _core.Trace:
        """Runs one launch like a call, with a kernel that keeps times, and returns them. State is updated.

        The first trace on CUDA compiles that kernel, and its launch finds nothing in the caches: trace
        again for times of a warm one. The "cpu" and "cuda" backends keep times.
        """
        given = self._signature.flatten(args, kwargs)
        with self._lock:
            self._launch(given, traced=True)
            tracer = self._executors[True].executor
            tracer.synchronize()
            return tracer.trace()

    def region_values(self, *args: Any, **kwargs: Any) -> list[RegionValue]:
        """What each region stores for others in one run on the reference backend, in the order of the run.

        It works on copies: state stays as it is.
        """
        given = self._signature.flatten(args, kwargs)
        self.synchronize()
        bound = {slot.index: self._tensors[slot.name].cpu().clone() for slot in self._kept}
        bound |= {slot.index: self._input(slot, given[at]).cpu().clone() for slot, at in self._given}
        bound |= {slot.index: torch.empty(slot.shape, dtype=slot.dtype) for slot in self._outputs}
        addresses = [(index, tensor.data_ptr()) for index, tensor in bound.items()]
        return [
            RegionValue(region, buffer, _tensor(data, torch_type(dtype), shape))
            for region, buffer, dtype, shape, data in _core.stored_values(self._program, addresses)
        ]

    def as_kernels(self, *, overlapped: bool) -> Step:
        """The same tasks as one kernel for each phase: what the one kernel is measured against.

        `overlapped` kernels may load their weights while the kernel before still runs (programmatic dependent
        launch). Capture a call in a CUDA graph to time it. CUDA only.
        """
        launches = "overlapped kernels" if overlapped else "kernels"
        return Step(
            self._program,
            self._signature,
            self._tensors,
            self._device,
            self._backend,
            launches=launches,
            packed_weights=self._packs_weights,
        )

    def refresh_weights(self) -> None:
        """Makes packed copies of weights anew at the next call.

        A call does so by itself where PyTorch counts the change of a parameter; changes through `.data`, or
        of inference tensors, it does not count.
        """
        for bound in self._executors.values():
            bound.executor.refresh()

    @property
    def program(self) -> _core.Program:
        """The compiled program."""
        return self._program

    @property
    def plan(self) -> str:
        """The plan in its text form."""
        return self._program.plan_text

    @property
    def plan_options(self) -> str:
        """Choices of the planner, as `stretto.compile(..., plan=...)` takes them; empty if untuned."""
        return self._program.plan_options

    @property
    def source(self) -> str:
        """The CUDA source of the kernel."""
        return self._program.source

    @property
    def stages(self) -> dict[str, float]:
        """Milliseconds that each stage of the compiler took."""
        return dict(self._program.times)

    @property
    def statistics(self) -> dict[str, int]:
        """Counts of the plan: regions, tasks, hand-offs, arena and weight bytes, and others."""
        return self._program.statistics

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The tensors that the step updates, by name."""
        return {slot.name: self._tensors[slot.name] for slot in self._kept if slot.role == "state"}

    @property
    def index_limits(self) -> Mapping[str, IndexLimit]:
        """How many rows the embeddings have that inputs and state index, by their names.

        Ids in host memory are checked at a call. On a device, a negative one counts from the end, and one
        that still is no row reads the nearest: never memory outside the embedding.
        """
        return self._signature.limits

    @property
    def decoder(self) -> DecoderShape | None:
        """What a decode step was captured for; None for other programs."""
        return self._signature.decoder

    @property
    def device(self) -> torch.device:
        """Where inputs and outputs live."""
        return self._device

    @property
    def backend(self) -> str:
        """ "cuda", "cpu" or "reference"."""
        return self._backend

    def explain(self) -> str:
        """What the plan costs and why, as text, and what a compiled kernel makes slower than it should be."""
        return self._program.explain() + "".join(f"warning: {text}\n" for text in self._warnings)

    def verify(self) -> list[str]:
        """Faults of the plan; an empty list means that it is proven safe."""
        return self._program.verify()

    def kernel(self, arch: str | None = None, *, use_cache: bool = True) -> _core.Kernel:
        """Compiles the CUDA kernel (no GPU is needed) for `arch`, by default the plan's own architecture.

        Raises InternalError where the kernel spills registers; warns where the compiler had to slow it down.
        """
        nvrtc.locate()
        return self._warned(_core.compile_kernel(self._program, arch or "", use_cache))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program, its parameters and the present values of its state, for `stretto.load`."""
        self.synchronize()
        tensors = {name: tensor.cpu() for name, tensor in self._tensors.items()}
        references = {name: host_reference(name, tensor) for name, tensor in tensors.items()}
        self._program.save(os.fspath(path), references, self._signature.to_json())

    def synchronize(self) -> None:
        """Waits for queued launches and raises RunError if one of them failed."""
        for bound in self._executors.values():
            bound.executor.synchronize()

    def rebind(self, name: str, tensor: torch.Tensor) -> None:
        """Uses `tensor` for the parameter or state `name` from the next call on."""
        with self._lock:
            self.synchronize()
            self._tensors[name] = tensor
            self._executors.clear()

    def _launch(
        self,
        given: Sequence[Any] | Mapping[int, Any],
        iterations: int = 1,
        *,
        traced: bool = False,
        stop: int = -1,
        progress: int = 0,
        granted: int = 0,
    ) -> dict[str, torch.Tensor]:
        inputs = [self._input(slot, given[position]) for slot, position in self._given]
        outputs = [torch.empty(slot.shape, dtype=slot.dtype, device=self._device) for slot in self._outputs]
        states = tuple(
            tensor.data_ptr()
            for (slot, _), tensor in zip(self._given, inputs, strict=True)
            if slot.role == "state"
        )
        bound = self._executors.get(traced)
        if bound is None or bound.states != states:
            bound = self._bind(states, traced)
        if self._packs_weights and self._versions != (versions := self._count_changes()):
            self._versions = versions
            self.refresh_weights()
        addresses = [tensor.data_ptr() for tensor in inputs + outputs]
        bound.executor.run(addresses, self._stream(), iterations, stop, progress, granted)
        return {slot.name: tensor for slot, tensor in zip(self._outputs, outputs, strict=True)}

    def _count_changes(self) -> int:
        parameters = (self._tensors[slot.name] for slot in self._kept if slot.role == "parameter")
        return sum(tensor._version for tensor in parameters if not tensor.is_inference())

    def _bind(self, states: tuple[int, ...], traced: bool) -> _Bound:
        """Makes the executor, which keeps the addresses of parameters and state."""
        self.synchronize()
        kept = [(slot.index, self._tensors[slot.name].data_ptr()) for slot in self._kept]
        varying = [slot.index for slot, _ in self._given] + [slot.index for slot in self._outputs]
        nvrtc.locate()
        memory.check_programs([self._program], self._device, packs_weights=self._packs_weights)
        executor = _core.Executor(
            self._program, self._backend, kept, varying, traced, self._launches, self._packs_weights
        )
        self._executors[traced] = _Bound(self._warned(executor), states)
        return self._executors[traced]

    def _warned(self, compiled: _Compiled) -> _Compiled:
        """Warns once of what is slower about it than it should be."""
        new = [text for text in compiled.warnings if text not in self._warnings]
        self._warnings += new
        for text in new:
            warnings.warn(text, stacklevel=2)
        return compiled

    def _input(self, slot: Slot, tensor: Any) -> torch.Tensor:
        self._check_input(slot, tensor)
        # Kernels read and write whole groups of neighbours where they can.
        aligned = self._backend != "cuda" or tensor.data_ptr() % _ALIGNMENT == 0
        if tensor.is_contiguous() and aligned:
            return tensor
        if slot.role == "state" and not aligned:
            raise UserError(
                f"input {slot.name!r} is changed by the program but does not start at a multiple of "
                f"{_ALIGNMENT} bytes\n  pass {slot.name}.clone()"
            )
        if slot.role == "state":
            raise UserError(
                f"input {slot.name!r} is changed by the program but is not contiguous "
                f"(strides {tuple(tensor.stride())})\n  pass {slot.name}.contiguous()"
            )
        return tensor.contiguous() if aligned else tensor.clone(memory_format=torch.contiguous_format)

    def _check_input(self, slot: Slot, tensor: Any) -> None:
        check_input(slot.name, tensor, slot.dtype, slot.shape)
        if tensor.device != self._device:
            raise InputTypeError(
                f"input {slot.name!r} is on {tensor.device}, the step runs on {self._device}\n"
                f"  pass {slot.name}.to({str(self._device)!r})"
            )
        limit = self.index_limits.get(slot.name)
        if limit is not None and limit.all:
            check_indices(slot.name, tensor, limit)

    def _stream(self) -> int:
        if self._device.type != "cuda":
            return 0
        current = torch.cuda.current_stream(self._device)
        # The arena is shared by all launches: one on another stream must come after those before it.
        changed = self._last_stream is not None and self._last_stream != current.cuda_stream
        if changed and not torch.cuda.is_current_stream_capturing():
            current.wait_stream(torch.cuda.ExternalStream(self._last_stream, device=self._device))
        self._last_stream = current.cuda_stream
        return current.cuda_stream


def _tensor(data: bytes, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    if not data:
        return torch.empty(*shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(tuple(shape))


def _outer_slots(program: _core.Program) -> list[Slot]:
    return [
        Slot(index, buffer.name, buffer.role, torch_type(buffer.dtype), tuple(buffer.shape))
        for index, buffer in enumerate(program.buffers)
        if buffer.role not in ("arena", "constant")
    ]
