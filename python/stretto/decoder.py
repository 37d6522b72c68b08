"""Causal language models: the decode step that transformers itself exports, and greedy generation with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram

from .capture import functional, trace
from .errors import InputTypeError, UserError

if TYPE_CHECKING:
    from .step import Step

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
    step = _step_module(model, batch_size, max_cache_len)
    device = next(model.parameters()).device
    inputs = {
        "input_ids": torch.zeros(batch_size, 1, dtype=torch.long, device=device),
        "cache_position": torch.zeros(1, dtype=torch.long, device=device),
    }
    with _evaluating(model):
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


def generate(
    step: Step, input_ids: torch.Tensor, max_new_tokens: int, *, eos_token_id: int | None = None
) -> Iterator[torch.Tensor]:
    """Yields greedy tokens, one [batch] tensor at a time, as soon as each is known.

    The prompt `input_ids` [batch, length] goes through the decode step token by token, which fills the
    cache from position 0. Stops after `max_new_tokens`, or when every row has produced `eos_token_id`.
    """
    _check_prompt(step, input_ids, max_new_tokens)
    position = torch.zeros(1, dtype=torch.long, device=input_ids.device)
    length = input_ids.shape[1]
    done = torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
    token = input_ids[:, :1]
    for at in range(length + max_new_tokens - 1):
        logits = step(input_ids=token, cache_position=position)
        position += 1
        if at + 1 < length:
            token = input_ids[:, at + 1 : at + 2]
            continue
        token = logits[:, -1:].argmax(dim=-1)
        yield token[:, 0]
        if eos_token_id is not None:
            done |= token[:, 0] == eos_token_id
            if bool(done.all()):
                return


def _check_prompt(step: Step, input_ids: torch.Tensor, max_new_tokens: int) -> None:
    if not isinstance(input_ids, torch.Tensor) or input_ids.dim() != 2 or input_ids.dtype != torch.long:
        raise InputTypeError("input_ids must be a torch.int64 tensor of shape [batch, length]")
    if input_ids.shape[1] == 0 or max_new_tokens < 1:
        raise UserError("generate needs at least one prompt token and max_new_tokens of at least 1")
    shape = step.decoder
    if shape is None:
        return
    if input_ids.shape[0] != shape.batch_size:
        raise UserError(
            f"the prompt has {input_ids.shape[0]} rows, "
            f"the step was captured for batch_size={shape.batch_size}\n"
            f"  compile the model with batch_size={input_ids.shape[0]}"
        )
    needed = input_ids.shape[1] + max_new_tokens - 1
    if needed > shape.max_cache_len:
        raise UserError(
            f"{input_ids.shape[1]} prompt tokens and {max_new_tokens} new ones need {needed} cache rows, "
            f"the step has {shape.max_cache_len}\n  compile the model with max_cache_len={needed} or more"
        )


def _step_module(model: torch.nn.Module, batch_size: int, max_cache_len: int) -> torch.nn.Module:
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
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
