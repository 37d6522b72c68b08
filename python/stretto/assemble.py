"""An exported program from a traced graph whose state is known by name, without another trace of it."""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from .capture import FUNCTIONAL_KEY, decompositions


def traced(function: Callable[..., Sequence[Tensor]], operands: Sequence[Tensor]) -> torch.fx.GraphModule:
    """`function` as a graph of operations that the importer knows, none of them in place.

    It may use autograd. It is traced for shapes alone: no operand is read.
    """
    # Functionalization cannot see through autograd, so that it comes second.
    plain = make_fx(function, tracing_mode="fake")(*operands)
    plain.graph.eliminate_dead_code()
    plain.recompile()
    pure = torch.func.functionalize(plain, remove="mutations")
    graph_module = make_fx(pure, decomposition_table=_table(), tracing_mode="fake")(*operands)
    for node in graph_module.graph.find_nodes(op="call_function", target=operator.getitem):
        node.meta.setdefault("val", None)  # results that an operation was not asked for
    return graph_module


@functools.cache
def _table() -> Mapping[Any, Any]:
    return dict(decompositions().items())


def assemble(
    graph_module: torch.fx.GraphModule,
    state: Mapping[str, Tensor],
    changed: Sequence[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: Sequence[str],
) -> ExportedProgram:
    """A program whose buffers are `state` and whose inputs are the leaves of (args, kwargs), named
    `names`.

    Requires: the graph takes the state in order, then the tensors among the leaves; it returns results,
    then the new values of the state tensors `changed`.
    """
    graph = graph_module.graph
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    placeholders = graph.find_nodes(op="placeholder")
    held, given = placeholders[: len(state)], iter(placeholders[len(state) :])
    inputs = [
        InputSpec(InputKind.BUFFER, _renamed(node, f"b_{_identifier(name)}"), name, True)
        for node, name in zip(held, state, strict=True)
    ]
    constants = _lift_constants(graph_module, placeholders[0])
    inputs = [InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name), name) for name in constants] + inputs
    with graph.inserting_after(placeholders[-1]):
        for leaf, name in zip(leaves, names, strict=True):
            if isinstance(leaf, Tensor):
                argument = _renamed(next(given), name)
            else:
                node = graph.placeholder(name)
                node.meta["val"] = leaf
                argument = ConstantArgument(node.name, leaf)
            inputs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    signature, results = _outputs(graph, changed, inputs)
    graph.lint()
    out_spec = pytree.tree_structure(tuple(range(len(results))))
    root = ModuleCallSignature(
        inputs=[spec.arg for spec in inputs if spec.kind is InputKind.USER_INPUT],
        outputs=[TensorArgument(node.name) for node in results],
        in_spec=in_spec,
        out_spec=out_spec,
    )
    program = ExportedProgram(
        root=graph_module,
        graph=graph,
        graph_signature=signature,
        state_dict=dict(state),
        range_constraints={},
        module_call_graph=[ModuleCallEntry("", root)],
        example_inputs=(args, kwargs),
        constants=constants,
    )
    program.graph_module.meta[FUNCTIONAL_KEY] = True
    return program


def leaf_names(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name for each leaf of (args, kwargs): its parameter's, and the path inside of it."""
    positional: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += [f"{parameter.name}_{n}" for n in range(len(args) - len(positional))]
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            positional.append(parameter.name)
    roots = dict(zip(positional, args, strict=False)) | kwargs
    names = []
    for root, value in roots.items():
        for path, _ in pytree.tree_flatten_with_path(value)[0]:
            names.append(_identifier(root + pytree.keystr(path)))
    return names


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")


def _renamed(node: torch.fx.Node, name: str) -> TensorArgument:
    node.target = name
    node._rename(name)
    node.target = node.name
    return TensorArgument(node.name)


def _lift_constants(graph_module: torch.fx.GraphModule, first: torch.fx.Node) -> dict[str, Tensor]:
    """Makes inputs of the tensors that the graph holds itself."""
    constants: dict[str, Tensor] = {}
    for node in graph_module.graph.find_nodes(op="get_attr"):
        with graph_module.graph.inserting_before(first):
            lifted = graph_module.graph.placeholder(f"c_{node.name}")
        lifted.meta = dict(node.meta)
        constants[lifted.name] = getattr(graph_module, node.target)
        lifted.meta.setdefault("val", _fake(first, constants[lifted.name]))
        node.replace_all_uses_with(lifted)
        graph_module.graph.erase_node(node)
    return constants


def _fake(known: torch.fx.Node, tensor: Tensor) -> Tensor:
    return known.meta["val"].fake_mode.from_tensor(tensor)


def _outputs(
    graph: torch.fx.Graph, changed: Sequence[str], inputs: list[InputSpec]
) -> tuple[ExportGraphSignature, list[torch.fx.Node]]:
    """Mutations first, then results, which is the order of exported programs."""
    output = graph.output_node()
    values = list(output.args[0])
    results, new = values[: len(values) - len(changed)], values[len(values) - len(changed) :]
    output.args = ((*new, *results),)
    mutations = [
        OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), name)
        for node, name in zip(new, changed, strict=True)
    ]
    handed = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results]
    return ExportGraphSignature(inputs, mutations + handed), results
