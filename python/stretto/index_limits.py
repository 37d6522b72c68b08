"""Which inputs hold the rows of an embedding, and how many rows there are.

A kernel never reads outside an embedding: an id behind its last row reads the last one. Where ids are on the
host, they are checked before a launch instead, as PyTorch does it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from .errors import InputIndexError

_aten = torch.ops.aten
_OF_ALL = {
    _aten.alias, _aten.clone, _aten.contiguous, _aten.detach, _aten.expand, _aten.flatten, _aten.permute,
    _aten.reshape, _aten.squeeze, _aten.t, _aten.transpose, _aten.unsqueeze, _aten.view, _aten._unsafe_view,
}  # fmt: skip
_OF_SOME = {_aten.index_select, _aten.select, _aten.slice}


@dataclass(frozen=True)
class IndexLimit:
    """Ids lie in [0, rows)."""

    rows: int
    all: bool  #: is every element an id? Otherwise some may go unread


def index_limits(program: ExportedProgram) -> dict[str, IndexLimit]:
    """By the name of a user input, or of a tensor that the program holds."""
    names = {
        spec.arg.name: spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
        for spec in program.graph_signature.input_specs
    }
    limits: dict[str, IndexLimit] = {}
    for node in program.graph.nodes:
        if _packet(node) is not _aten.embedding:
            continue
        weight, source = node.args[:2]
        everything = True
        while _packet(source) in _OF_ALL | _OF_SOME:
            everything &= _packet(source) in _OF_ALL
            source = source.args[0]
        if source.op != "placeholder":
            continue
        name, rows = names[source.name], weight.meta["val"].shape[0]
        before = limits.get(name, IndexLimit(rows, False))
        limits[name] = IndexLimit(min(rows, before.rows), everything or before.all)
    return limits


def check_indices(name: str, tensor: Tensor, limit: IndexLimit) -> None:
    """Raises InputIndexError where an id in host memory is no row; a tensor on a device is left alone."""
    if tensor.device.type != "cpu" or tensor.numel() == 0:
        return
    low, high = (int(bound) for bound in tensor.aminmax())
    if low >= 0 and high < limit.rows:
        return
    wrong = low if low < 0 else high
    raise InputIndexError(
        f"input {name!r} holds {wrong}, the embedding that it indexes has {limit.rows} rows\n"
        f"  pass ids from 0 to {limit.rows - 1}"
    )


def _packet(node: torch.fx.Node) -> object:
    return getattr(node.target, "overloadpacket", None) if node.op == "call_function" else None
