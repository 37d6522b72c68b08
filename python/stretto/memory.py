"""Does a program fit into the memory that is free? Asked before anything is allocated or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from . import _core
from .errors import UserError

if TYPE_CHECKING:
    from .objective import CapturedObjective
    from .update_program import Recipe


def free_bytes(device: torch.device) -> int | None:
    """Memory of the device that can be had now, where that is known.

    What PyTorch keeps for later is given back first if it is much: programs allocate beside PyTorch.
    """
    if device.type != "cuda":
        return _core.free_host_memory()
    free, _ = torch.cuda.mem_get_info(device)
    if torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) > free // 8:
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(device)
    return free


def check_programs(
    programs: list[_core.Program],
    device: torch.device,
    *,
    batch: int = 0,
    takes_parts: bool = False,
    packs_weights: bool = False,
) -> None:
    """Raises UserError where the programs do not fit together beside their parameters and state.

    `batch` are the rows of a batch, if they are known; `takes_parts`: may it come in microbatches?
    """
    free = free_bytes(device)
    for program in programs if free is not None else ():
        program.check_fits(free, batch, takes_parts, packs_weights)
        free -= program.statistics["arena_bytes"]


def check_state(objective: CapturedObjective, recipe: Recipe, device: torch.device) -> None:
    """Raises UserError where there is no room for what an update keeps beside the model."""
    free = free_bytes(device)
    needed = state_bytes(objective.parameters, recipe)
    if free is None or needed <= free:
        return
    parameters = sum(p.nbytes for p in objective.parameters.values())
    raise UserError(
        f"the state of the optimizer needs {size_text(needed)} of memory, {size_text(free)} are free "
        f"beside the model (parameters that are trained: {size_text(parameters)})\n"
        "  take an optimizer with fewer states, leave out averages or accumulate, or freeze parameters"
    )


def state_bytes(parameters: Mapping[str, torch.Tensor], recipe: Recipe) -> int:
    """Bytes of optimizer state, averages and sums of gradients."""
    others = recipe.accumulates + (recipe.average_decay is not None)
    return sum(
        parameters[name].nbytes * (len(recipe.optimizers[number].states) + others)
        for name, (number, _) in recipe.assigned(parameters).items()
    )


def size_text(count: int) -> str:
    """A number of bytes, in words."""
    if count < 1e6:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.2f} GB"
