"""How a caller sees a step: its inputs and outputs, and the Python structure around them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

from .capture import Fixed
from .decoder import DecoderShape
from .errors import UserError
from .index_limits import IndexLimit

if TYPE_CHECKING:
    from . import _core


@dataclass(frozen=True)
class Signature:
    """Flattened inputs and outputs in order, a name for each tensor.

    `in_spec` and `out_spec` are None for a program that did not come from Python: it takes tensors by
    position or name, and returns one tensor or a tuple.
    """

    inputs: tuple[str | Fixed, ...]
    outputs: tuple[str | Fixed, ...]
    in_spec: pytree.TreeSpec | None = None
    out_spec: pytree.TreeSpec | None = None
    decoder: DecoderShape | None = None
    limits: Mapping[str, IndexLimit] = field(default_factory=dict)  #: of ids, by input or state

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The values of a call in the order of `inputs`. Raises UserError where they do not fit."""
        if self.in_spec is None:
            return self._by_name(args, kwargs)
        expected = list(self.in_spec.child(1).context or [])
        if kwargs.keys() == set(expected):
            kwargs = {key: kwargs[key] for key in expected}
        given, given_spec = pytree.tree_flatten((args, kwargs))
        if given_spec != self.in_spec:
            raise UserError(
                "the arguments differ in structure from the example inputs\n"
                f"  given     {_picture(given_spec)}\n"
                f"  expected  {_picture(self.in_spec)}\n"
                "  pass the same arguments, positional and by keyword, as at compile time"
            )
        for slot, value in zip(self.inputs, given, strict=True):
            if isinstance(slot, Fixed) and slot.value != value:
                raise UserError(
                    f"a constant argument is {value!r}, but the step was compiled for {slot.value!r}\n"
                    "  Python values are part of the program: compile again for another value"
                )
        return given

    def unflatten(self, results: dict[str, Any]) -> Any:
        """The result of a call from the tensors that it produced."""
        outputs = [slot.value if isinstance(slot, Fixed) else results[slot] for slot in self.outputs]
        if self.out_spec is not None:
            return pytree.tree_unflatten(outputs, self.out_spec)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def to_json(self) -> str:
        """A text form for packages. Raises UserError where the Python structure cannot be stored."""
        try:
            return json.dumps(
                {
                    "inputs": [_slot_to_json(slot) for slot in self.inputs],
                    "outputs": [_slot_to_json(slot) for slot in self.outputs],
                    "in_spec": self.in_spec and pytree.treespec_dumps(self.in_spec),
                    "out_spec": self.out_spec and pytree.treespec_dumps(self.out_spec),
                    "decoder": self.decoder and asdict(self.decoder),
                    "limits": {name: asdict(limit) for name, limit in self.limits.items()},
                }
            )
        except (NotImplementedError, TypeError) as error:
            raise UserError(f"the structure of inputs or outputs cannot be saved: {error}") from error

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = [slot for slot in self.inputs if isinstance(slot, str)]
        named = dict(zip(names, args, strict=False)) | kwargs
        if len(args) + len(kwargs) != len(names) or named.keys() != set(names):
            raise UserError(f"the program takes {len(names)} tensors: {', '.join(names)}")
        return [slot.value if isinstance(slot, Fixed) else named[slot] for slot in self.inputs]


def signature_of(program: _core.Program) -> Signature:
    """The signature that a package holds."""
    if not program.front_end:
        inputs = tuple(name if name else Fixed(None) for name in program.inputs)
        outputs = tuple(name if name else Fixed(None) for name in program.outputs)
        return Signature(inputs, outputs)
    stored = json.loads(program.front_end)
    return Signature(
        inputs=tuple(_slot_from_json(slot) for slot in stored["inputs"]),
        outputs=tuple(_slot_from_json(slot) for slot in stored["outputs"]),
        in_spec=stored["in_spec"] and pytree.treespec_loads(stored["in_spec"]),
        out_spec=stored["out_spec"] and pytree.treespec_loads(stored["out_spec"]),
        decoder=stored["decoder"] and DecoderShape(**stored["decoder"]),
        limits={name: IndexLimit(**limit) for name, limit in stored.get("limits", {}).items()},
    )


def _slot_to_json(slot: str | Fixed) -> Any:
    return {"fixed": slot.value} if isinstance(slot, Fixed) else slot


def _slot_from_json(slot: Any) -> str | Fixed:
    return slot if isinstance(slot, str) else Fixed(slot["fixed"])


def _picture(spec: pytree.TreeSpec) -> str:
    """E.g. "(*, mask=*)"."""
    args, kwargs = pytree.tree_unflatten(["*"] * spec.num_leaves, spec)
    parts = [str(value) for value in args] + [f"{key}={value}" for key, value in kwargs.items()]
    return f"({', '.join(parts)})".replace("'*'", "*")
