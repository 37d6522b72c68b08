"""Text generation with the host out of the loop: decode step, sampling and stopping in one kernel."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram

from .background import BackgroundLaunch
from .capture import functional, trace
from .compiler import compile
from .decoder import decode_module, evaluating
from .errors import InputTypeError, UserError
from .index_limits import check_indices
from .sampler import Sampler
from .step import Step

# Between two looks at the progress of a launch. A token takes longer.
_POLL_SECONDS = 20e-6


class GenerationStep(torch.nn.Module):
    """One token for every row: decode step, sampler and the bookkeeping between tokens, as one module.

    Everything that changes is a buffer, so that the module takes no inputs and can run again and again
    without the host: `tokens` [batch, max_cache_len + 1] holds the prompt and what follows (-1 where nothing
    is known yet), `position` [1] the column that is decoded next. Columns of the prompt are decoded like all
    others, but what follows them is given already. Rows that have ended get the padding token.
    """

    def __init__(
        self,
        decode: torch.nn.Module,
        sampler: Sampler,
        batch_size: int,
        max_cache_len: int,
        vocabulary: int,
        eos_token_ids: list[int],
        pad_token_id: int,
        device: torch.device,
    ):
        super().__init__()
        self.decode = decode
        self.sampler = sampler

        def state(name: str, *shape: int, dtype: torch.dtype = torch.long) -> None:
            self.register_buffer(name, torch.zeros(shape, dtype=dtype, device=device), persistent=False)

        state("tokens", batch_size, max_cache_len + 1)
        state("sent", batch_size, max_cache_len + 1)
        state("position", 1)
        state("finished", batch_size, dtype=torch.bool)
        state("over", 1, dtype=torch.bool)
        if sampler.looks_back:
            state("seen", batch_size, vocabulary, dtype=torch.bool)
        # No token is -1: it stands for "no such token".
        self.register_buffer("eos", torch.tensor(eos_token_ids or [-1], device=device), persistent=False)
        self.register_buffer("pad", torch.tensor([pad_token_id], device=device), persistent=False)

    def forward(self) -> torch.Tensor:
        """Decodes one column and writes the next; returns it [batch]."""
        position = self.position.clone()
        following = position + 1
        token = self.tokens.index_select(1, position)
        logits = self.decode(input_ids=token, cache_position=position)[:, -1]
        seen = self._mark_seen(token) if self.sampler.looks_back else None
        chosen = self.sampler(logits, position, seen)
        given = self.tokens.index_select(1, following)[:, 0]
        in_prompt = given >= 0
        next_token = torch.where(in_prompt, given, torch.where(self.finished, self.pad, chosen))
        ended = (next_token[:, None] == self.eos[None, :]).any(dim=1) & ~in_prompt
        finished = self.finished | ended
        self.tokens.index_copy_(1, following, next_token[:, None])
        self.sent.index_copy_(1, following, next_token[:, None])
        self.finished.copy_(finished)
        self.over.copy_(finished.all()[None])
        self.position.copy_(following)
        return next_token

    def _mark_seen(self, token: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(token.shape[0], device=token.device)
        self.seen.index_put_((rows, token[:, 0]), torch.ones_like(rows, dtype=torch.bool))
        return self.seen


class Generator:
    """Generates tokens with one kernel that runs for many of them.

    `step` is compiled from `export_generator`'s program, or loaded. `tokens_per_launch` bounds how many
    tokens one launch makes; by default it makes all.
    """

    def __init__(self, step: Step, *, tokens_per_launch: int | None = None):
        missing = {"tokens", "sent", "position", "over"} - step.state.keys()
        if missing:
            raise UserError(
                f"the step does not generate tokens: it has no state {', '.join(sorted(missing))}\n"
                "  compile what stretto.export_generator gives"
            )
        self.step = step
        self._sent = step.state["sent"]
        self._max_cache_len = self._sent.shape[1] - 1
        self._tokens_per_launch = tokens_per_launch or self._max_cache_len
        on_cuda = step.device.type == "cuda"
        self._progress = torch.zeros(1, dtype=torch.int32, pin_memory=on_cuda)
        if on_cuda:
            self._sent = torch.zeros(self._sent.shape, dtype=torch.long, pin_memory=True)
            step.rebind("sent", self._sent)
        self._launch: BackgroundLaunch | None = None

    def stream(self, input_ids: torch.Tensor, max_new_tokens: int) -> Iterator[torch.Tensor]:
        """Yields the tokens that follow the prompt `input_ids` [batch, length], a [batch] tensor (on the
        host) at a time, as soon as the kernel has made each.

        Stops after `max_new_tokens`, or when every row has produced an end token; rows that ended before
        others go on with padding.
        """
        self._check(input_ids, max_new_tokens)
        length = input_ids.shape[1]
        last = length + max_new_tokens - 1
        self._begin(input_ids)
        position = 0
        shown = length
        while position < last:
            done = 0
            for done in self._launched(min(self._tokens_per_launch, last - position)):
                while shown <= position + done:
                    yield self._sent[:, shown].clone()
                    shown += 1
            position += done
            if bool(self.step.state["over"]):
                return

    def generate(self, input_ids: torch.Tensor, max_new_tokens: int) -> torch.Tensor:
        """All tokens [batch, count] that `stream` yields."""
        return torch.stack(list(self.stream(input_ids, max_new_tokens)), dim=1)

    def _begin(self, input_ids: torch.Tensor) -> None:
        if self._launch is not None:
            self._launch.wait()
        for state in self.step.state.values():
            state.zero_()
        tokens = self.step.state["tokens"]
        tokens.fill_(-1)
        tokens[:, : input_ids.shape[1]] = input_ids

    def _launched(self, count: int) -> Iterator[int]:
        """Starts a launch; yields the number of iterations that are done, each time that it grows."""
        self._progress.zero_()
        begin = functools.partial(self.step.repeat_until, "over", count, self._progress)
        launch = self._launch = BackgroundLaunch(self.step, begin)
        seen = 0
        while seen >= 0:
            is_over = launch.is_over()
            progress = int(self._progress)
            if progress != seen:
                seen = progress
                yield progress & 0x7FFFFFFF
            elif is_over:
                break  # it failed: `wait` says why
            else:
                time.sleep(_POLL_SECONDS)
        launch.wait()

    def _check(self, input_ids: torch.Tensor, max_new_tokens: int) -> None:
        if not isinstance(input_ids, torch.Tensor) or input_ids.dim() != 2 or input_ids.dtype != torch.long:
            raise InputTypeError("input_ids must be a torch.int64 tensor of shape [batch, length]")
        if input_ids.shape[1] == 0 or max_new_tokens < 1:
            raise UserError("generation needs at least one prompt token and max_new_tokens of at least 1")
        limit = self.step.index_limits.get("tokens")
        if limit is not None:
            check_indices("input_ids", input_ids.cpu(), limit)
        batch = self._sent.shape[0]
        if input_ids.shape[0] != batch:
            raise UserError(
                f"the prompt has {input_ids.shape[0]} rows, "
                f"the generator was compiled for batch_size={batch}\n"
                f"  compile it with batch_size={input_ids.shape[0]}"
            )
        needed = input_ids.shape[1] + max_new_tokens - 1
        if needed > self._max_cache_len:
            raise UserError(
                f"{input_ids.shape[1]} prompt tokens and {max_new_tokens} new ones need {needed} cache rows, "
                f"the generator has {self._max_cache_len}\n"
                f"  compile it with max_cache_len={needed} or more"
            )


def export_generator(
    model: torch.nn.Module,
    *,
    sampler: Sampler | None = None,
    batch_size: int = 1,
    max_cache_len: int = 256,
    eos_token_id: int | Iterable[int] | None = None,
    pad_token_id: int | None = None,
) -> ExportedProgram:
    """Exports a Hugging Face causal language model, a sampler and the loop around them as one program.

    `eos_token_id` (one or several) ends a row; by default it is the model's own. `pad_token_id` fills rows
    that have ended (by default the first end token). Raises UserError where the model is not such a model.
    """
    decode = decode_module(model, batch_size, max_cache_len)
    device = next(model.parameters()).device
    ends = _token_ids(model.generation_config.eos_token_id if eos_token_id is None else eos_token_id)
    pad = pad_token_id if pad_token_id is not None else ends[0] if ends else 0
    module = GenerationStep(
        decode,
        (sampler or Sampler()).to(device),
        batch_size,
        max_cache_len,
        model.config.vocab_size,
        ends,
        pad,
        device,
    )
    with evaluating(model):
        return functional(trace(module, (), {}))


def compile_generator(
    model: torch.nn.Module,
    *,
    tokens_per_launch: int | None = None,
    backend: str | None = None,
    machine: str | None = None,
    numerics: str = "fused",
    packed_weights: bool = False,
    **options: Any,
) -> Generator:
    """Compiles a Hugging Face causal language model, a sampler and the loop around them into one kernel.

    `options` are `export_generator`'s, `tokens_per_launch` is `Generator`'s, the others are `compile`'s.
    """
    program = export_generator(model, **options)
    step = compile(
        program, backend=backend, machine=machine, numerics=numerics, packed_weights=packed_weights
    )
    return Generator(step, tokens_per_launch=tokens_per_launch)


def _token_ids(ids: int | Iterable[int] | None) -> list[int]:
    if ids is None:
        return []
    return [ids] if isinstance(ids, int) else list(ids)
