"""The systems that decode is measured with. Each makes a `Running`: a launch to time, and logits to check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

import stretto

from .plain import PlainDecoder
from .shapes import SHAPES, random_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENS_OF_A_LAUNCH = 32
MANY_TOKENS = f"Stretto, {TOKENS_OF_A_LAUNCH} tokens a launch"
PACKED = "Stretto, packed weights"


@dataclass(frozen=True)
class Case:
    """What is measured."""

    model: str
    batch: int
    context: int


@dataclass(frozen=True)
class Running:
    """A system ready to run. `decode` turns tokens [batch, 1] and a position [1] into logits [batch, v], or
    into the tokens [batch] that follow where the system chooses them itself."""

    launch: Callable[[], None]  #: queues a step at the last position of the context
    decode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    tokens: int = 1  #: that one launch makes
    owner: object = None  #: what must live as long: a graph does not hold the memory of what it replays


@dataclass(frozen=True)
class System:
    """One way to run the model. `tunes`: it times candidates while it compiles, so nothing else may run."""

    name: str
    start: Callable[[PreTrainedModel, Case], Running]
    tunes: bool = False


def _static(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs at fixed addresses, as a captured graph needs them."""
    tokens = torch.full((case.batch, 1), 17, device="cuda")
    return tokens, torch.tensor([case.context - 1], device="cuda")


def _eager(model: PreTrainedModel, case: Case) -> Running:
    from transformers import StaticCache

    cache = StaticCache(config=model.config, max_cache_len=case.context)
    tokens, position = _static(case)

    @torch.no_grad()
    def decode(tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        # A static layer counts for itself how many rows it has.
        for layer in cache.layers:
            if hasattr(layer, "cumulative_length"):
                layer.cumulative_length.copy_(position.reshape(layer.cumulative_length.shape))
        result = model(tokens, past_key_values=cache, cache_position=position, position_ids=position[None])
        return result.logits[:, -1]

    decode(tokens, position * 0)
    return Running(lambda: decode(tokens, position), decode)


def _compiled(mode: str, *, graph: bool, exported: bool = False, pdl: bool = False):
    def start(model: PreTrainedModel, case: Case) -> Running:
        if pdl:
            import torch._inductor.config as inductor

            inductor.triton.enable_pdl = True
        if exported:
            step = stretto.export_decoder(model, batch_size=case.batch, max_cache_len=case.context).module()
            compiled = torch.compile(step, mode=mode)

            def decode(tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
                return compiled(input_ids=tokens, cache_position=position)[:, -1]

        else:
            decode = torch.compile(
                PlainDecoder(model, SHAPES[case.model], case.batch, case.context), mode=mode, fullgraph=True
            )
        with torch.no_grad():
            return _captured(decode, case) if graph else _direct(decode, case)

    return start


def _direct(decode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], case: Case) -> Running:
    tokens, position = _static(case)

    @torch.no_grad()
    def run(tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return decode(tokens, position)

    for _ in range(3):
        run(tokens, position)
    return Running(lambda: run(tokens, position), run)


def _captured(decode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], case: Case) -> Running:
    """The whole step in one CUDA graph; `decode` replays it with other inputs."""
    tokens, position = _static(case)
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            decode(tokens, position)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = decode(tokens, position)

    def replay(new_tokens: torch.Tensor, new_position: torch.Tensor) -> torch.Tensor:
        tokens.copy_(new_tokens)
        position.copy_(new_position)
        graph.replay()
        return logits

    return Running(graph.replay, replay, owner=decode)


def _stretto(**options: Any):
    def start(model: PreTrainedModel, case: Case) -> Running:
        step = stretto.compile(model, batch_size=case.batch, max_cache_len=case.context, **options)
        return _direct(lambda tokens, position: step(input_ids=tokens, cache_position=position)[:, -1], case)

    return start


def _generating(model: PreTrainedModel, case: Case) -> Running:
    """Greedy, up to the last position of the context: the launch embeds, decodes, samples and goes on."""
    generator = stretto.compile_generator(
        model, batch_size=case.batch, max_cache_len=case.context, eos_token_id=()
    )
    step, state = generator.step, generator.step.state
    count = min(TOKENS_OF_A_LAUNCH, case.context)
    first_tokens, last = _static(case)
    first = last - (count - 1)

    def place(tokens: torch.Tensor, position: torch.Tensor) -> None:
        state["tokens"].fill_(-1)
        state["tokens"].index_copy_(1, position, tokens)
        state["position"].copy_(position)

    def decode(tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        place(tokens, position)
        return step()

    def launch() -> None:
        place(first_tokens, first)
        step.repeat(count)

    return Running(launch, decode, tokens=count)


def _kernels(*, overlapped: bool):
    def start(model: PreTrainedModel, case: Case) -> Running:
        step = stretto.compile(model, batch_size=case.batch, max_cache_len=case.context)
        kernels = step.as_kernels(overlapped=overlapped)
        return _captured(
            lambda tokens, position: kernels(input_ids=tokens, cache_position=position)[:, -1], case
        )

    return start


SYSTEMS = {
    system.name: system
    for system in (
        System("eager", _eager),
        System("torch.compile default", _compiled("default", graph=False)),
        System("torch.compile default + graph", _compiled("default", graph=True)),
        System("torch.compile max-autotune", _compiled("max-autotune", graph=False), tunes=True),
        System(
            "torch.compile max-autotune + graph",
            _compiled("max-autotune-no-cudagraphs", graph=True),
            tunes=True,
        ),
        System(
            "torch.compile max-autotune + graph + PDL",
            _compiled("max-autotune-no-cudagraphs", graph=True, pdl=True),
            tunes=True,
        ),
        System(
            "exported step, torch.compile max-autotune + graph",
            _compiled("max-autotune-no-cudagraphs", graph=True, exported=True),
            tunes=True,
        ),
        System("Stretto's tiles as kernels + graph", _kernels(overlapped=False)),
        System("Stretto's tiles as kernels + graph + PDL", _kernels(overlapped=True)),
        System("Stretto", _stretto()),
        System(PACKED, _stretto(packed_weights=True)),
        System(MANY_TOKENS, _generating),
        System("Stretto without words", _stretto(without=("words",))),
        System("Stretto without stream", _stretto(without=("stream",))),
    )
}

#: What is left out, the system without it, and the one that differs in nothing else.
ABLATIONS = (
    ("weights that run ahead through the ring", "Stretto without stream", "Stretto"),
    ("epoch-tagged words", "Stretto without words", "Stretto"),
    ("one kernel, not a graph of kernels with PDL", "Stretto's tiles as kernels + graph + PDL", "Stretto"),
    ("packed weights", "Stretto", PACKED),
    ("several tokens in a launch", "Stretto", MANY_TOKENS),
)


def start(name: str, case: Case) -> Running:
    """Makes a system ready for a case, in this process."""
    return SYSTEMS[name].start(random_model(SHAPES[case.model], "cuda"), case)
