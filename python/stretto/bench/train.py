"""A complete training update of GPT-2 small: Stretto's one launch beside the fastest that PyTorch offers.

Every system starts from the same F32 master weights, computes in bf16 and updates with AdamW. Before it is
timed, its losses over a few updates are compared with those of an F32 run.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import stretto

from .statistics import median_interval

LEARNING_RATE = 1e-4
CHECKED_UPDATES = 4
LOSS_TOLERANCE = 2e-2  #: of a loss near ln 50257 = 10.8, after bf16 forward and backward

Update = Callable[[], Tensor]


@dataclass(frozen=True)
class Row:
    """One system as measured. A row with a fault has no times."""

    workload: str
    tokens: int
    system: str
    median_ms: float | None
    ci_low_ms: float | None
    ci_high_ms: float | None
    loss_error: float | None  #: largest distance from the losses of the F32 run
    fault: str | None = None


def gpt2() -> nn.Module:
    """GPT-2 small with random weights, without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", use_cache=False, **rates)).cuda()


def objective(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of the next tokens."""
    logits = model(input_ids=tokens, use_cache=False).logits
    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))


def _torch_update(model: nn.Module, batch: Sequence[Tensor], dtype: torch.dtype) -> Update:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True, capturable=True)

    def update() -> Tensor:
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            loss = objective(model, *batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return update


def eager(model: nn.Module, batch: Sequence[Tensor]) -> Update:
    """PyTorch as it comes, with a fused optimizer."""
    return _torch_update(model, batch, torch.bfloat16)


def compiled_graph(model: nn.Module, batch: Sequence[Tensor]) -> Update:
    """torch.compile, and the whole update as one CUDA graph."""
    start = copy.deepcopy(model.state_dict())
    update = _torch_update(torch.compile(model), batch, torch.bfloat16)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            update()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = update()
    model.load_state_dict(start)

    def replay() -> Tensor:
        graph.replay()
        return loss.clone()

    return replay


def one_launch(model: nn.Module, batch: Sequence[Tensor]) -> Update:
    """Stretto."""
    update = stretto.compile_update(
        model,
        objective,
        optimizer=stretto.AdamW(lr=LEARNING_RATE),
        example=tuple(batch),
        compute_dtype=torch.bfloat16,
    )
    return lambda: update(*batch)


SYSTEMS = {"eager": eager, "torch.compile + CUDA graph": compiled_graph, "stretto": one_launch}


def measure(systems: Sequence[str], tokens: int, rounds: int, updates: int) -> list[Row]:
    """Times `rounds` groups of `updates` of each system, one system after the other."""
    generator = torch.Generator("cuda").manual_seed(1)
    batch = [torch.randint(0, 50257, (1, tokens), generator=generator, device="cuda") for _ in range(2)]
    exact = _torch_update(gpt2(), batch, torch.float32)
    expected = [float(exact()) for _ in range(CHECKED_UPDATES)]
    rows = []
    for system in systems:
        try:
            update = SYSTEMS[system](gpt2(), batch)
            losses = [float(update()) for _ in range(CHECKED_UPDATES)]
            # A CUDA graph's optimizer has taken steps before: only its first loss is that of the run.
            count = 1 if system == "torch.compile + CUDA graph" else CHECKED_UPDATES
            error = max(abs(a - b) for a, b in zip(losses[:count], expected[:count], strict=True))
            if error > LOSS_TOLERANCE:
                raise RuntimeError(f"losses {losses} differ from {expected}")
            times = [_elapsed_ms(update, updates) for _ in range(rounds)]
            rows.append(Row("GPT-2 small", tokens, system, *median_interval([times]), error))
        except Exception as error:
            rows.append(Row("GPT-2 small", tokens, system, None, None, None, None, str(error)[:500]))
    return rows


def _elapsed_ms(update: Update, updates: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(updates):
        update()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / updates


def write(rows: Sequence[Row], origin: dict[str, str], path: Path) -> None:
    """Writes a list of objects, one for each system."""
    path.write_text(json.dumps([asdict(row) | origin for row in rows], indent=1) + "\n")


def markdown(rows: Sequence[Row]) -> str:
    """A table of times; systems that failed say why."""
    lines = ["| workload | tokens | system | ms | 95 % interval |", "|---|---|---|---|---|"]
    for row in rows:
        numbers = (
            f"{row.median_ms:.2f} | {row.ci_low_ms:.2f} to {row.ci_high_ms:.2f}" if row.median_ms else "- | -"
        )
        fault = f" ({row.fault})" if row.fault else ""
        lines.append(f"| {row.workload} | {row.tokens} | {row.system}{fault} | {numbers} |")
    return "\n".join(lines)
