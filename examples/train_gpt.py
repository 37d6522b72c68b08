"""A small GPT learns the text of this repository's documentation, byte by byte, one launch per update.

    python examples/train_gpt.py [--updates N] [--csv FILE] [--checkpoint FILE] [--resume FILE]

Runs on the GPU if there is one, and otherwise on the cpu backend. Ctrl-C stops between two updates and
writes the checkpoint.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stretto
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent
BYTES = 256


@dataclass(frozen=True)
class Shape:
    """Sizes of the model and its batches."""

    width: int = 64
    layers: int = 2
    heads: int = 4
    context: int = 64
    batch: int = 8


class Block(torch.nn.Module):
    """Causal attention and a feed-forward network, each on a normalized stream."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.heads = shape.heads
        self.norm1 = torch.nn.LayerNorm(shape.width)
        self.qkv = torch.nn.Linear(shape.width, 3 * shape.width)
        self.out = torch.nn.Linear(shape.width, shape.width)
        self.norm2 = torch.nn.LayerNorm(shape.width)
        self.up = torch.nn.Linear(shape.width, 4 * shape.width)
        self.down = torch.nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, context, width] to the same."""
        batch, context, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, context, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(torch.nn.Module):
    """Bytes to logits of the next byte; the embedding is the head's matrix as well."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = torch.nn.Embedding(BYTES, shape.width)
        self.position = torch.nn.Parameter(0.02 * torch.randn(shape.context, shape.width))
        self.blocks = torch.nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm = torch.nn.LayerNorm(shape.width)
        torch.nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[batch, context] to [batch, context, BYTES]."""
        x = self.embedding(tokens) + self.position
        return F.linear(self.norm(self.blocks(x)), self.embedding.weight)


def objective(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Mean loss of each byte after the first, given those before it. tokens [batch, context + 1]"""
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def warm_up(step: torch.Tensor) -> torch.Tensor:
    """The learning rate of an update: up over 20 updates, then constant."""
    return 1e-3 * torch.clamp((step + 1) / 20, max=1.0)


def optimizer() -> stretto.Optimizer:
    """AdamW with clipping; vectors do not decay."""
    vectors = {"params": lambda name, p: p.dim() < 2, "weight_decay": 0.0}
    return stretto.AdamW(lr=warm_up, weight_decay=0.1, clip_norm=1.0, groups=[vectors])


def text() -> torch.Tensor:
    """The bytes of the documentation."""
    files = sorted(ROOT.glob("docs/**/*.md"))
    return torch.tensor(list(b"\n".join(file.read_bytes() for file in files)))


def batches(data: torch.Tensor, shape: Shape, device: torch.device, first: int = 0) -> Iterator[torch.Tensor]:
    """Random pieces of the text, the same for the same number of an update."""
    for step in range(first, 2**31):
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(len(data) - shape.context - 1, (shape.batch,), generator=generator)
        yield torch.stack([data[s : s + shape.context + 1] for s in starts.tolist()]).to(device)


def train(
    update: stretto.Update,
    data: torch.Tensor,
    updates: int,
    shape: Shape,
    report: Callable[[int, float, float], None],
    device: torch.device,
) -> None:
    """Runs updates until there have been so many, and reports (number, loss, gradient norm) of each."""
    first = update.count
    given = batches(data, shape, device, first)
    for step in range(first, updates):
        loss = update(next(given))
        report(step, loss.item(), update.gradient_norm.item())


def check() -> dict[str, Any]:
    """What `stretto check-update examples/train_gpt.py:check` compares with PyTorch."""
    torch.manual_seed(0)
    shape = Shape(batch=2)
    given = ((tokens,) for tokens in batches(text(), shape, torch.device("cpu")))
    return {"model": Gpt(shape), "objective": objective, "optimizer": optimizer(), "batches": given}


def main() -> None:
    """Trains, shows progress, and keeps the state."""
    arguments = _arguments()
    shape = Shape()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = Gpt(shape).to(device)
    example = next(batches(text(), shape, device))
    update = stretto.compile_update(model, objective, optimizer=optimizer(), example=(example,))
    if arguments.resume:
        update.load_state_dict(torch.load(arguments.resume))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with open(arguments.csv, "a", newline="") as file, Progress(*columns) as progress:
        rows = csv.writer(file)
        bar = progress.add_task("loss", total=arguments.updates, completed=update.count)
        started = time.perf_counter()

        def report(step: int, loss: float, norm: float) -> None:
            rows.writerow([step, loss, norm, round(time.perf_counter() - started, 4)])
            progress.update(bar, completed=step + 1, description=f"loss {loss:.3f}  norm {norm:.2f}")

        try:
            train(update, text(), arguments.updates, shape, report, device)
        except KeyboardInterrupt:
            progress.console.print(f"stopped after {update.count} whole updates")
    if arguments.checkpoint:
        torch.save(update.state_dict(), arguments.checkpoint)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small GPT on this repository's documentation.")
    parser.add_argument("--updates", type=int, default=300, help="updates in all (default 300)")
    parser.add_argument("--csv", type=Path, default=Path("train_gpt.csv"), help="number, loss, norm, seconds")
    parser.add_argument("--checkpoint", type=Path, help="where to write the state at the end")
    parser.add_argument("--resume", type=Path, help="a checkpoint to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
