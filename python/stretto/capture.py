"""PyTorch in, one functional program out: torch.export, then the schema that the C++ importer reads.

Every front end goes through here: explicit compiles, exported files, decoders and torch.compile.
"""

from __future__ import annotations

import contextlib
import inspect
import unittest.mock
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from .errors import InputTypeError, UserError

# Operations that the importer lowers whole. PyTorch's default table would break them into pieces.
_KEPT = (
    "aten::layer_norm",
    "aten::linear",
    "aten::matmul",
    "aten::rms_norm",
    "aten::scaled_dot_product_attention",
    "aten::silu",
    "aten::softmax.int",
)

# What the importer uses of a node's metadata. The rest (stack traces above all) only makes the hand-over
# larger.
_KEPT_METADATA = ("val", "nn_module_stack")

# Marks a program that went through `functional`, which takes seconds for a deep model.
FUNCTIONAL_KEY = "stretto_functional"


@dataclass(frozen=True)
class Capture:
    """A program ready for the importer.

    `tensors` holds parameters, buffers and lifted constants by their names in the model; they are the
    model's own tensors, never copies, except where a tensor was not dense. `inputs` and `outputs` list what
    a caller passes and gets, in flattened order: a name for a tensor, or a `Fixed` value that was part of
    the capture.
    """

    program_json: bytes
    tensors: dict[str, torch.Tensor]
    constants: frozenset[str]
    inputs: tuple[str | Fixed, ...]
    outputs: tuple[str | Fixed, ...]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec


@dataclass(frozen=True)
class Fixed:
    """A Python value that is a constant of the captured program."""

    value: Any


def export(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Any = (),
    path: str | None = None,
) -> ExportedProgram:
    """Exports `model` for Stretto, and saves it to `path` (a `.pt2` archive) where one is given.

    `example_inputs` is a tuple of positional arguments, a dict of keyword arguments, or one tensor. Shapes
    and Python values in it become part of the program. Raises UserError where PyTorch cannot export the
    model.
    """
    args, kwargs = split_inputs(example_inputs)
    module = model if isinstance(model, torch.nn.Module) else FunctionModule(model)
    program = functional(trace(module, args, kwargs))
    if path is not None:
        torch.export.save(program, path)
    return program


def trace(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, gradients: bool = False
) -> ExportedProgram:
    """torch.export in non-strict mode. Raises UserError where it fails.

    With `gradients` PyTorch can differentiate the program.
    """
    with torch.set_grad_enabled(gradients), _quiet(), _refusals():
        return torch.export.export(module, args, kwargs, strict=False)


def functional(program: ExportedProgram) -> ExportedProgram:
    """The same program without in-place operations, in operations that the importer knows.

    Raises UserError where PyTorch cannot make it.
    """
    if program.graph_module.meta.get(FUNCTIONAL_KEY):
        return program
    with torch.no_grad(), _quiet(), _refusals():
        program = program.run_decompositions(decompositions())
    program.graph_module.meta[FUNCTIONAL_KEY] = True
    return program


def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions, without those of operations that the importer lowers whole."""
    table = torch.export.default_decompositions()
    for operation in [op for op in table if op.name() in _KEPT]:
        del table[operation]
    return table


def capture(program: ExportedProgram) -> Capture:
    """Prepares a functional program (see `functional`) for the importer.

    Raises UserError where it takes or returns something that Stretto does not have, or changes a tensor that
    shares its memory with another.
    """
    signature = program.graph_signature
    mutated = {s.target for s in signature.output_specs if s.kind is OutputKind.BUFFER_MUTATION}
    tensors: dict[str, torch.Tensor] = {}
    constants: set[str] = set()
    inputs: list[str | Fixed] = []
    for spec in signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            inputs.append(_slot(spec.arg, f"input {len(inputs)}"))
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            if spec.kind is InputKind.CONSTANT_TENSOR:
                constants.add(spec.target)
            tensors[spec.target] = _dense_tensor(program, spec.target, spec.target in mutated)
        else:
            raise UserError(
                f"the exported program takes {spec.arg.name!r}, a {spec.kind.name.lower()}\n"
                "  stretto takes tensors and Python constants: remove custom objects and effect tokens"
            )
    _check_apart(tensors, mutated)
    outputs = [
        _slot(spec.arg, f"output {position}")
        for position, spec in enumerate(s for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT)
    ]
    return Capture(
        program_json=_serialized(program),
        tensors=tensors,
        constants=frozenset(constants),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        in_spec=program.call_spec.in_spec,
        out_spec=program.call_spec.out_spec,
    )


def split_inputs(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of `example_inputs`."""
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str):
        return tuple(example_inputs), {}
    raise InputTypeError(
        f"example_inputs is a {type(example_inputs).__name__}\n"
        "  pass a tuple of positional arguments, a dict of keyword arguments, or one tensor"
    )


class FunctionModule(torch.nn.Module):
    """A plain function as a module, which is what torch.export takes."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        if not callable(function):
            raise InputTypeError(
                f"a {type(function).__name__} is neither a module nor a function\n"
                "  pass a torch.nn.Module or a function of tensors"
            )
        # torch.export names inputs after forward's parameters; functions of PyTorch's own have none to show.
        self.forward = function if _has_signature(function) else lambda *args: function(*args)


def _has_signature(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


def _slot(argument: Any, what: str) -> str | Fixed:
    if isinstance(argument, TensorArgument):
        return argument.name
    if isinstance(argument, ConstantArgument):
        return Fixed(argument.value)
    raise UserError(
        f"{what} of the exported program is a {type(argument).__name__.removesuffix('Argument').lower()}\n"
        "  stretto compiles static shapes: export with tensors and Python constants, without dynamic_shapes"
    )


def _dense_tensor(program: ExportedProgram, name: str, mutated: bool) -> torch.Tensor:
    tensor = program.state_dict.get(name)
    if tensor is None:
        tensor = program.constants.get(name)
    if not isinstance(tensor, torch.Tensor):
        raise UserError(
            f"the exported program names tensor {name!r} but does not hold it\n  export the model again"
        )
    if mutated and not tensor.is_contiguous():
        raise UserError(
            f"buffer {name!r} is changed by the model but is not contiguous "
            f"(strides {tuple(tensor.stride())})\n"
            "  register it as buffer.contiguous(), so that updates reach the model's own tensor"
        )
    return tensor.detach().contiguous()


def _check_apart(tensors: Mapping[str, torch.Tensor], mutated: Collection[str]) -> None:
    """Raises UserError where a tensor that the program changes overlaps another one."""
    spans = sorted(
        (str(tensor.device), tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes, name)
        for name, tensor in tensors.items()
        if tensor.nbytes > 0 and tensor.data_ptr() != 0
    )
    # The span that reaches furthest so far: of all, and of those that change.
    furthest: dict[tuple[str, bool], tuple[int, str]] = {}
    for device, begin, end, name in spans:
        changes = name in mutated
        reach, other = furthest.get((device, not changes), (0, ""))
        if begin < reach:
            raise UserError(
                f"{other!r} and {name!r} share memory, and the program changes "
                f"{'both' if changes and other in mutated else 'one of them'}\n"
                "  make them one tensor (module.weight = other.weight), or clone() one"
            )
        for changed_only in (False, True) if changes else (False,):
            furthest[device, changed_only] = max(furthest.get((device, changed_only), (0, "")), (end, name))


@contextlib.contextmanager
def _short_metadata(program: ExportedProgram) -> Iterator[None]:
    full = [(node, node.meta) for node in program.graph.nodes]
    try:
        for node, meta in full:
            node.meta = {key: meta[key] for key in _KEPT_METADATA if key in meta}
        yield
    finally:
        for node, meta in full:
            node.meta = meta


@contextlib.contextmanager
def _without_self_test(writer: Any) -> Iterator[None]:
    """The schema writer makes a canonical form only to see that it can, which takes most of its time."""
    if not hasattr(writer, "canonicalize"):
        yield
        return
    with unittest.mock.patch.object(writer, "canonicalize", lambda *_: None):
        yield


def _serialized(program: ExportedProgram) -> bytes:
    # The schema writer behind torch.export.save; there is no public call that leaves the tensors out.
    from torch._export.serde import serialize as writer

    options = {"serialize_state_dict": False, "serialize_constants": False, "serialize_example_inputs": False}
    known = inspect.signature(writer.serialize).parameters
    with _short_metadata(program), _without_self_test(writer):
        artifact = writer.serialize(program, **{key: value for key, value in options.items() if key in known})
    return artifact.exported_program


def first_line(error: Exception) -> str:
    """The first line of its message; its class where it has none."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What PyTorch raises while it exports, as UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"PyTorch cannot export this model: {first_line(error)}\n"
            "  stretto needs one graph with static shapes; for PyTorch's whole report run\n"
            "  torch.export.export(model, args, strict=False).run_decompositions()"
        ) from error


class _quiet(warnings.catch_warnings):
    """Hides warnings that PyTorch raises about its own export code."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\..*")
