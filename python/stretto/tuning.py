"""Looking for a faster plan of a captured program, by timed runs on its own example inputs."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from . import _core, nvrtc
from .capture import Capture
from .decoder import decoder_shape
from .errors import UserError
from .torch_types import host_reference


def tuned_plan(
    program: ExportedProgram,
    captured: Capture,
    inputs: list[str],
    *,
    machine: str,
    numerics: str,
    backend: str,
    seconds: float,
) -> str:
    """The options of the fastest plan that `seconds` of search find (see `stretto tune --help`).

    `inputs` are the importer's names of the program's inputs. Measurements are kept in the cache, so a search
    that was broken off goes on where it stopped. Parameters and state are copied: the model's own do not
    change.
    """
    tensors = {name: tensor.cpu() for name, tensor in captured.tensors.items()}
    given = {name: tensor.cpu() for name, tensor in _example_tensors(program, inputs).items()}
    nvrtc.locate()
    show = _show(seconds) if sys.stderr.isatty() else None
    best, report = _core.tune(
        captured.program_json,
        {name: host_reference(name, tensor) for name, tensor in tensors.items()},
        {name: host_reference(name, tensor) for name, tensor in given.items()},
        machine,
        numerics,
        backend,
        seconds,
        show,
    )
    if show is not None:
        print(f"\r\033[K{report}", end="", file=sys.stderr)
    return best


def _example_tensors(program: ExportedProgram, inputs: list[str]) -> dict[str, torch.Tensor]:
    if program.example_inputs is None:
        raise UserError(
            "the exported program came without example inputs, and tuning runs it\n  export the model again"
        )
    values: list[Any] = pytree.tree_leaves(program.example_inputs)
    tensors = {
        name: value.contiguous()
        for name, value in zip(inputs, values, strict=True)
        if isinstance(value, torch.Tensor)
    }
    decoder = decoder_shape(program)
    if decoder is not None and "cache_position" in tensors:
        # The last position reads the whole cache.
        tensors["cache_position"] = torch.full_like(tensors["cache_position"], decoder.max_cache_len - 1)
    return tensors


def _show(seconds: float) -> Any:
    def show(what: str, passed: float) -> None:
        print(f"\r\033[Ktuning, {passed:.0f} of {seconds:.0f} s: {what}", end="", file=sys.stderr, flush=True)

    return show
