"""Trains a small GPT and a small mixture of experts, compiled and in eager PyTorch, and compares every loss.

    python scripts/loss_curves.py [--models gpt moe] [--dtype float32 bfloat16] [--updates N] [--json FILE]

Both train the same float32 parameters on the same batches of bytes of this repository's licence; `--dtype` is
the type of forward and backward. A third run in float64 says how far eager itself is from the exact curve:
runs that round differently drift apart, but not much further than that if both are right. The exit status is
1 where the compiled curve is further from eager's than `--allowed` times eager's is from float64's.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "examples")]

import stretto  # noqa: E402
import torch  # noqa: E402
import train_gpt  # noqa: E402
from stretto.bench.provenance import provenance  # noqa: E402
from torch.nn import functional as F  # noqa: E402

Objective = Callable[[torch.nn.Module, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Workload:
    """What is trained. `prepare` gets a model ready to compute in a type."""

    build: Callable[[train_gpt.Shape], torch.nn.Module]
    objective: Objective
    prepare: Callable[[torch.nn.Module, torch.dtype], None]


def mixture(shape: train_gpt.Shape) -> torch.nn.Module:
    """Granite's mixture of experts from transformers, two of four experts for each token."""
    from transformers import GraniteMoeConfig, GraniteMoeForCausalLM

    config = GraniteMoeConfig(
        vocab_size=train_gpt.BYTES,
        hidden_size=shape.width,
        intermediate_size=2 * shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=shape.context,
    )
    return GraniteMoeForCausalLM(config)


def mixture_loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Mean loss of each byte after the first, given those before it. tokens [batch, context + 1]"""
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def set_experts(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """PyTorch has grouped products of experts in 16 bits only."""
    known = {torch.bfloat16: "grouped_mm", torch.float32: "batched_mm", torch.float64: "eager"}
    model.set_experts_implementation(known[dtype])


WORKLOADS = {
    "gpt": Workload(train_gpt.Gpt, train_gpt.objective, lambda model, dtype: None),
    "moe": Workload(mixture, mixture_loss, set_experts),
}


def eager_losses(
    model: torch.nn.Module,
    objective: Objective,
    given: Iterator[torch.Tensor],
    updates: int,
    dtype: torch.dtype | None,
) -> list[float]:
    """What the example's optimizer does, by torch.optim."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups: list[dict[str, Any]] = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.1)
    losses = []
    for step in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = train_gpt.warm_up(torch.tensor(step)).item()
        optimizer.zero_grad()
        loss = objective(_computing_in(model, dtype), next(given))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def _computing_in(model: torch.nn.Module, dtype: torch.dtype | None) -> Callable[..., Any]:
    """The model with its parameters rounded to `dtype`, which keep their own type."""
    if dtype is None:
        return model
    narrow = {name: p.to(dtype) for name, p in model.named_parameters()}
    return lambda *args, **kwargs: torch.func.functional_call(model, narrow, args, kwargs)


def compare(
    key: str, shape: train_gpt.Shape, updates: int, dtype: torch.dtype, device: torch.device
) -> dict[str, Any]:
    """Three runs of one workload, as a row of the report."""
    workload = WORKLOADS[key]
    torch.manual_seed(0)
    start = workload.build(shape).to(device)
    data = torch.tensor(list((ROOT / "LICENSE").read_bytes()))

    def batches() -> Iterator[torch.Tensor]:
        return (tokens.to(device) for tokens in train_gpt.batches(data, shape))

    narrow = None if dtype == torch.float32 else dtype

    def started(computing: torch.dtype) -> torch.nn.Module:
        model = copy.deepcopy(start)
        workload.prepare(model, computing)
        return model

    began = time.perf_counter()
    update = stretto.compile_update(
        started(dtype),
        workload.objective,
        optimizer=train_gpt.optimizer(),
        example=(next(batches()),),
        compute_dtype=narrow,
    )
    compiled = time.perf_counter()
    given = batches()
    ours = [update(next(given)).item() for _ in range(updates)]
    trained = time.perf_counter()
    eager = eager_losses(started(dtype), workload.objective, batches(), updates, narrow)
    exact = eager_losses(started(torch.float64).double(), workload.objective, batches(), updates, None)
    return {
        "model": key,
        "parameters": sum(p.numel() for p in start.parameters()),
        "tokens": shape.batch * shape.context,
        "dtype": str(dtype).removeprefix("torch."),
        "updates": updates,
        "largest_gap": gap(ours, eager),
        "eager_from_float64": gap(eager, exact),
        "ours_from_float64": gap(ours, exact),
        "seconds_to_compile": round(compiled - began, 1),
        "seconds_of_updates": round(trained - compiled, 1),
        "losses": [round(loss, 6) for loss in ours],
        "eager_losses": [round(loss, 6) for loss in eager],
    }


def gap(left: list[float], right: list[float]) -> float:
    """Largest distance of two curves; infinite where a loss is not finite."""
    distances = [abs(a - b) for a, b in zip(left, right, strict=True)]
    return max(distances) if all(d == d for d in distances) else float("inf")


def main() -> int:
    """Compares, prints a line for each curve; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument(
        "--dtype", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"]
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--width", type=int, default=32, help="of the model (default 32)")
    parser.add_argument("--allowed", type=float, default=3.0, help="see above (default 3)")
    parser.add_argument("--json", type=Path, help="write curves and gaps to this file")
    arguments = parser.parse_args()
    shape = train_gpt.Shape(width=arguments.width, layers=2, heads=2, context=32, batch=4)
    torch.set_num_threads(1)  # of eager runs, whose tensors are so small that threads wait for each other
    rows = []
    origin = provenance()
    for key in arguments.models:
        for dtype in arguments.dtype:
            row = compare(
                key, shape, arguments.updates, getattr(torch, dtype), torch.device(arguments.device)
            )
            rows.append(row | origin)
            print(
                f"{key} {dtype}: loss {row['losses'][0]:.3f} to {row['losses'][-1]:.3f} "
                f"in {row['updates']} updates; largest gap to eager {row['largest_gap']:.2e}, "
                f"eager to float64 {row['eager_from_float64']:.2e}",
                flush=True,
            )
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["largest_gap"] > arguments.allowed * row["eager_from_float64"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
