"""A small GPT learns the text of this repository's documentation, byte by byte, in one long launch.

    python examples/train_gpt.py [--updates N] [--csv FILE] [--tensorboard FOLDER]
                                 [--checkpoint FILE [--every N]] [--resume FILE]

Runs on the GPU if there is one, and otherwise on the cpu backend. The kernel takes batches from a ring that
the host fills while it runs, and reports every update. Ctrl-C stops between two updates and writes the
checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
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


def batches(data: torch.Tensor, shape: Shape, first: int = 0) -> Iterator[torch.Tensor]:
    """Random pieces of the text in host memory, the same for the same number of an update."""
    for step in range(first, 2**31):
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(len(data) - shape.context - 1, (shape.batch,), generator=generator)
        yield torch.stack([data[s : s + shape.context + 1] for s in starts.tolist()])


def train(
    update: stretto.Update,
    given: Iterator[torch.Tensor],
    updates: int,
    log: Callable[[stretto.Report], None],
    save: Callable[[dict[str, Any]], None] | None = None,
    every: int = 100,
) -> bool:
    """Runs so many updates and logs each; every so many a copy of the state is saved while others go on.

    False: Ctrl-C ended them behind the last whole update.
    """
    training = update.train(given, updates)
    try:
        for report in training:
            log(report)
            if save is not None and (report.number + 1) % every == 0:
                save(training.state_dict())
    except KeyboardInterrupt:
        for report in training:  # of updates that were done meanwhile
            log(report)
        return False
    return True


def check() -> dict[str, Any]:
    """What `stretto check-update examples/train_gpt.py:check` compares with PyTorch."""
    torch.manual_seed(0)
    shape = Shape(batch=2)
    given = ((tokens,) for tokens in batches(text(), shape))
    return {"model": Gpt(shape), "objective": objective, "optimizer": optimizer(), "batches": given}


class Log:
    """Where reports go: a progress bar, a CSV file, and TensorBoard if asked for."""

    def __init__(self, progress: Progress, arguments: argparse.Namespace, first: int):
        self._progress = progress
        self._bar = progress.add_task("loss", total=arguments.updates, completed=first)
        self._file = open(arguments.csv, "a", newline="")  # noqa: SIM115
        self._board = board(arguments.tensorboard) if arguments.tensorboard else None
        self._started = time.perf_counter()

    def __call__(self, report: stretto.Report) -> None:
        """One line, one point."""
        seconds = round(time.perf_counter() - self._started, 4)
        csv.writer(self._file).writerow([report.number, report.loss, report.gradient_norm, seconds])
        described = f"loss {report.loss:.3f}  norm {report.gradient_norm:.2f}"
        self._progress.update(self._bar, completed=report.number + 1, description=described)
        if self._board is not None:
            self._board.add_scalar("loss", report.loss, report.number)
            self._board.add_scalar("gradient norm", report.gradient_norm, report.number)

    def close(self) -> None:
        """Writes what is left."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def board(folder: Path) -> Any:
    """A writer for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SystemExit(f"--tensorboard needs the package tensorboard: {error}") from None
    return SummaryWriter(str(folder))


def write(state: dict[str, Any], path: Path) -> None:
    """A checkpoint appears complete or not at all."""
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    temporary.replace(path)


def main() -> None:
    """Trains, shows progress, and keeps the state."""
    arguments = _arguments()
    shape = Shape()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = Gpt(shape).to(device)
    data = text()
    update = stretto.compile_update(
        model,
        objective,
        optimizer=optimizer(),
        example=(next(batches(data, shape)).to(device),),
        updates_per_launch=8,
    )
    if arguments.resume:
        update.load_state_dict(torch.load(arguments.resume))
    first = update.count
    save = functools.partial(write, path=arguments.checkpoint) if arguments.checkpoint else None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress, contextlib.closing(Log(progress, arguments, first)) as log:
        given = batches(data, shape, first)
        if not train(update, given, max(arguments.updates - first, 0), log, save, arguments.every):
            progress.console.print(f"stopped after {update.count} whole updates")
    if save is not None:
        save(update.state_dict())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small GPT on this repository's documentation.")
    parser.add_argument("--updates", type=int, default=300, help="updates in all (default 300)")
    parser.add_argument("--csv", type=Path, default=Path("train_gpt.csv"), help="number, loss, norm, seconds")
    parser.add_argument("--tensorboard", type=Path, help="a folder for TensorBoard (needs tensorboard)")
    parser.add_argument("--checkpoint", type=Path, help="where to keep the state")
    parser.add_argument("--every", type=int, default=100, help="updates between checkpoints (default 100)")
    parser.add_argument("--resume", type=Path, help="a checkpoint to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
