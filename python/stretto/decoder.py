"""Causal language models: the decode step that transformers itself exports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram

from .capture import functional, trace
from .errors import InputTypeError, UserError

_DECODER_KEY = "stretto_decoder"


@dataclass(frozen=True)
class DecoderShape:
    """What a decode step was captured for."""

    batch_size: int
    max_cache_len: int


def export_decoder(
    model: torch.nn.Module, *, batch_size: int = 1, max_cache_len: int = 256, path: str | None = None
) -> ExportedProgram:
    """Exports one decode step of a Hugging Face causal language model, with its key/value cache as state.

    The step takes `input_ids` [batch_size, 1] and `cache_position` [1] and returns logits [batch_size, 1,
    vocabulary]. It is transformers' own static-cache export, so any model that supports it works. Raises
    UserError where the model is not such a model.
    """
    step = decode_module(model, batch_size, max_cache_len)
    device = next(model.parameters()).device
    inputs = {
        "input_ids": torch.zeros(batch_size, 1, dtype=torch.long, device=device),
        "cache_position": torch.zeros(1, dtype=torch.long, device=device),
    }
    with evaluating(model):
        program = functional(trace(step, (), inputs))
    mark_decoder(program, DecoderShape(batch_size, max_cache_len))
    if path is not None:
        torch.export.save(program, path)
    return program


def mark_decoder(program: ExportedProgram, shape: DecoderShape) -> None:
    """Notes on `program` what it was captured for, which `generate` checks prompts against."""
    program.graph_module.meta[_DECODER_KEY] = shape


def decoder_shape(program: ExportedProgram) -> DecoderShape | None:
    """The shape that `export_decoder` captured `program` for, if it did."""
    return program.graph_module.meta.get(_DECODER_KEY)


def decode_module(model: torch.nn.Module, batch_size: int, max_cache_len: int) -> torch.nn.Module:
    """The decode step that `export_decoder` exports, as a module. Raises UserError where there is none."""
    try:
        from transformers import PreTrainedModel
        from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM
    except ImportError as error:
        raise UserError(f"decoders need transformers: {error}\n  pip install 'transformers>=5.17'") from error
    if not isinstance(model, PreTrainedModel) or not model.can_generate():
        raise InputTypeError(
            f"{type(model).__name__} is not a Hugging Face causal language model\n"
            "  for other models pass example_inputs instead of batch_size and max_cache_len"
        )
    for name, value in (("batch_size", batch_size), ("max_cache_len", max_cache_len)):
        if value < 1:
            raise UserError(f"{name} is {value}, it must be at least 1")
    with _static_cache(model):
        try:
            exportable = TorchExportableModuleForDecoderOnlyLM(model, batch_size, max_cache_len)
        except (AssertionError, ValueError, AttributeError) as error:
            raise UserError(f"transformers cannot export {type(model).__name__}: {error}") from error
    return _DecodeStep(exportable.model)


class _DecodeStep(torch.nn.Module):
    """transformers' exportable step, for non-strict export.

    Its cache object holds the cache tensors a second time, beside the registered buffers. Non-strict export
    sees only buffers, so during a call the cache object gets the buffers themselves.
    """

    def __init__(self, exportable: torch.nn.Module):
        super().__init__()
        self.step = exportable

    def forward(self, input_ids: torch.Tensor, cache_position: torch.Tensor) -> Any:
        cache = getattr(self.step, "static_cache", None) or self.step.cache
        stored = [(layer, layer.keys, layer.values, layer.cumulative_length) for layer in cache.layers]
        try:
            for number, (layer, *_) in enumerate(stored):
                layer.keys = getattr(self.step, f"key_cache_{number}")
                layer.values = getattr(self.step, f"value_cache_{number}")
                layer.cumulative_length = getattr(self.step, f"cumulative_length_{number}")
            return self.step(input_ids=input_ids, cache_position=cache_position)
        finally:
            for layer, keys, values, cumulative_length in stored:
                layer.keys, layer.values, layer.cumulative_length = keys, values, cumulative_length


@contextlib.contextmanager
def _static_cache(model: torch.nn.Module) -> Iterator[None]:
    """transformers exports only models whose generation config says "static"."""
    config = model.generation_config
    before = (config.cache_implementation, config.use_cache)
    config.cache_implementation, config.use_cache = "static", True
    try:
        yield
    finally:
        config.cache_implementation, config.use_cache = before


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model in evaluation mode, for a while."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
