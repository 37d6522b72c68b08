"""compile, save and load: from a model to a Step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.export import ExportedProgram

from . import _core
from .capture import Fixed, capture, export, functional
from .decoder import decoder_shape, export_decoder, mark_decoder
from .errors import UserError
from .index_limits import index_limits
from .signature import Signature, signature_of
from .step import Step
from .torch_types import host_reference, torch_type
from .tuning import tuned_plan


def compile(
    model: torch.nn.Module | Callable[..., Any] | ExportedProgram,
    example_inputs: Any = None,
    *,
    batch_size: int | None = None,
    max_cache_len: int | None = None,
    backend: str | None = None,
    machine: str | None = None,
    numerics: str = "fused",
    without: Iterable[str] = (),
    plan: str = "",
    tune: float | None = None,
    packed_weights: bool = False,
) -> Step:
    """Compiles a model, a function of tensors, or an exported program into a Step.

    `example_inputs` (see `stretto.export`) fix shapes, dtypes and Python values. For a Hugging Face causal
    language model leave them out and pass `batch_size` and `max_cache_len`: the step is then one decode
    step with its cache as state (see `stretto.export_decoder`).

    `backend` is "cuda", "cpu" or "reference"; by default it follows the device of the model and its inputs.
    `machine` is a built-in machine ("h200", "cpu") or the path of a machine file; by default it follows the
    backend. `numerics` is "fused" (F32 inside a region, one rounding at its stores) or "exact" (every
    rounding of the model). `without` names parts of the compiler to leave out, to measure what they are
    worth: "stream", "words".

    `plan` gives choices of the planner as `stretto tune` names them ("workers=128,words_up_to=2"). `tune`
    looks for the best ones itself, for so many seconds: it runs plans on the example inputs, beside the
    untuned one. Both leave results as they are, up to the order of sums.

    `packed_weights` streams weights, on the GPU, from copies in the order in which they are read. That takes
    `statistics["packed_bytes"]` of memory beside the model. Copies follow changes of the parameters (see
    `Step.refresh_weights`). Results are the same.

    Raises UserError where the model cannot be captured or holds an operation that Stretto does not have.
    """
    program = _exported(model, example_inputs, batch_size, max_cache_len)
    decoder = decoder_shape(program)
    captured = capture(program)
    device = _device_of(program)
    backend = backend or ("cuda" if device.type == "cuda" else "cpu")
    if backend not in ("cuda", "cpu", "reference"):
        raise UserError(f"unknown backend {backend!r}; known: reference, cpu, cuda")
    if (backend == "cuda") != (device.type == "cuda"):
        raise UserError(
            f"backend {backend!r} cannot run tensors on {device}\n"
            f"  move the model and its inputs: model.to({'cuda' if backend == 'cuda' else 'cpu'!r})"
        )
    machine = machine or ("h200" if backend == "cuda" else "cpu")
    # Values of constants become part of the program, so the host must be able to read them.
    readable = captured.tensors | {name: captured.tensors[name].cpu() for name in captured.constants}
    references = {name: host_reference(name, tensor) for name, tensor in readable.items()}

    def compiled_with(choices: str) -> _core.Program:
        return _core.compile(captured.program_json, references, machine, numerics, list(without), choices)

    if tune is not None and (plan or list(without)):
        raise UserError("tune searches from the usual plan: pass it without plan and without")
    compiled = compiled_with(plan)
    if tune is not None:
        best = tuned_plan(
            program,
            captured,
            compiled.inputs,
            machine=machine,
            numerics=numerics,
            backend=backend,
            seconds=tune,
        )
        compiled = compiled_with(best) if best else compiled
    inputs = _named(captured.inputs, compiled.inputs)
    named = {old: new for old, new in zip(captured.inputs, inputs, strict=True) if isinstance(old, str)}
    signature = Signature(
        inputs=inputs,
        outputs=_named(captured.outputs, compiled.outputs),
        in_spec=captured.in_spec,
        out_spec=captured.out_spec,
        decoder=decoder,
        limits={named.get(name, name): limit for name, limit in index_limits(program).items()},
    )
    return Step(compiled, signature, captured.tensors, device, backend, packed_weights=packed_weights)


def load(
    path: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    packed_weights: bool = False,
) -> Step:
    """Reads a program that `Step.save` or the command line wrote, with its parameters and state.

    It runs on `device`: by default the GPU for a program that was planned for one, where there is one, and
    otherwise the cpu. `packed_weights` as for `compile`. Raises UserError where the file is damaged or its
    plan does not verify.
    """
    program = _core.load(os.fspath(path))
    if device is None:
        device = "cuda" if program.arch != "cpu" and torch.cuda.is_available() else "cpu"
    device = torch.empty(0, device=device).device
    tensors = {}
    for buffer in program.buffers:
        if buffer.role in ("parameter", "state") and program.has_tensor(buffer.name):
            host = torch.empty(buffer.shape, dtype=torch_type(buffer.dtype))
            program.take_tensor(buffer.name, host.data_ptr())
            tensors[buffer.name] = host.to(device)
    backend = "cuda" if device.type == "cuda" else "cpu"
    return Step(program, signature_of(program), tensors, device, backend, packed_weights=packed_weights)


def _exported(
    model: Any, example_inputs: Any, batch_size: int | None, max_cache_len: int | None
) -> ExportedProgram:
    decodes = batch_size is not None or max_cache_len is not None
    if decodes and example_inputs is not None:
        raise UserError("pass example_inputs, or batch_size and max_cache_len for a decode step, not both")
    if isinstance(model, ExportedProgram):
        if decodes or example_inputs is not None:
            raise UserError("an exported program has its inputs already: pass it alone")
        decoder = decoder_shape(model)
        program = functional(model)
        if decoder is not None:
            mark_decoder(program, decoder)
        return program
    if decodes:
        return export_decoder(
            model,
            batch_size=1 if batch_size is None else batch_size,
            max_cache_len=256 if max_cache_len is None else max_cache_len,
        )
    return export(model, () if example_inputs is None else example_inputs)


def _named(slots: tuple[str | Fixed, ...], names: list[str]) -> tuple[str | Fixed, ...]:
    """`slots` with the importer's names, which differ where an input is called like a parameter."""
    return tuple(slot if isinstance(slot, Fixed) else name for slot, name in zip(slots, names, strict=True))


def _device_of(program: ExportedProgram) -> torch.device:
    """The one device of a program's tensors. Raises UserError if there are several."""
    devices = {
        node.meta["val"].device
        for node in program.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    }
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise UserError(f"the model and its inputs are on several devices: {names}\n  move them to one")
    return devices.pop() if devices else torch.device("cpu")
