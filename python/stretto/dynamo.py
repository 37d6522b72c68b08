"""The torch.compile backend: `torch.compile(model, backend="stretto")`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from .capture import functional, trace
from .compiler import compile as compile_program
from .errors import Error, UserError

_FALLBACKS = ("warn", "error")


def dynamo_backend(
    graph: torch.fx.GraphModule, example_inputs: list[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """Compiles one graph of torch.compile.

    Options: `fallback` is "warn" (run a graph that cannot be compiled with PyTorch, with a warning; the
    default) or "error" (raise); `machine`, `numerics` and `backend` as in `stretto.compile`. Training
    graphs are not compiled.
    """
    options = dict(options or {})
    fallback = options.pop("fallback", "warn")
    if fallback not in _FALLBACKS:
        raise UserError(f"option fallback is {fallback!r}, it must be one of {_FALLBACKS}")
    unknown = set(options) - {"machine", "numerics", "backend"}
    if unknown:
        raise UserError(
            f"unknown option {sorted(unknown)[0]!r}: known are fallback, machine, numerics, backend"
        )
    try:
        return _compiled(graph, example_inputs, options)
    except Error as error:
        if fallback == "error":
            raise
        warnings.warn(f"stretto falls back to PyTorch for one graph: {error}", stacklevel=2)
        return graph.forward


def _compiled(
    graph: torch.fx.GraphModule, example_inputs: list[Any], options: dict[str, Any]
) -> Callable[..., Any]:
    _check(example_inputs)
    static = {
        at: node.name for at, node in enumerate(graph.graph.find_nodes(op="placeholder")) if _is_static(node)
    }
    module = _Bound(graph, example_inputs, static)
    # A tracing context of dynamo is active here; torch.export must not see its fake tensors.
    with torch._guards.tracing(None):
        user_inputs = tuple(value for at, value in enumerate(example_inputs) if at not in static)
        step = compile_program(functional(trace(module, user_inputs, {})), **options)
    addresses = {at: example_inputs[at].data_ptr() for at in static}

    def run(*args: Any) -> Any:
        for at, address in addresses.items():
            if args[at].data_ptr() != address:
                step.rebind(static[at], args[at].detach().contiguous())
                addresses[at] = args[at].data_ptr()
        return step(*(value for at, value in enumerate(args) if at not in static))

    return run


class _Bound(torch.nn.Module):
    """A graph of dynamo whose parameters and buffers are buffers of a module, as torch.export expects."""

    def __init__(self, graph: torch.fx.GraphModule, inputs: list[Any], static: dict[int, str]):
        super().__init__()
        self._graph = [graph]
        self._static = static
        self._count = len(inputs)
        for at, name in static.items():
            self.register_buffer(name, inputs[at].detach())

    def forward(self, *user_inputs: Any) -> Any:
        remaining = iter(user_inputs)
        arguments = [
            getattr(self, self._static[at]) if at in self._static else next(remaining)
            for at in range(self._count)
        ]
        return self._graph[0](*arguments)


def _is_static(node: torch.fx.Node) -> bool:
    """Is the input a parameter or a buffer of a module? Dynamo marks them for its own backends."""
    return node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") is not None


def _check(example_inputs: list[Any]) -> None:
    for value in example_inputs:
        if isinstance(value, torch.SymInt):
            raise UserError(
                "the graph has dynamic shapes\n  stretto compiles static shapes: torch.compile(dynamic=False)"
            )
        if not isinstance(value, torch.Tensor):
            raise UserError(f"the graph takes a {type(value).__name__}, stretto takes tensors")
    if torch.is_grad_enabled() and any(value.requires_grad for value in example_inputs):
        raise UserError(
            "the graph needs gradients, and stretto compiles inference graphs\n"
            "  call the model under torch.no_grad() or torch.inference_mode()"
        )
