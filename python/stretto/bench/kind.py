"""Products of training shapes, each alone: Stretto's kind against what torch calls (cuBLAS)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

import stretto

from .statistics import median_interval


@dataclass(frozen=True)
class Product:
    """out[batch, m, n] = sum over k. `left` and `right` say whether k or the rows lie together in memory."""

    name: str
    batch: int
    m: int
    n: int
    k: int
    left: str = "rows"
    right: str = "rows"

    @property
    def operations(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.batch * self.m * self.n * self.k

    def operands(self, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Random bf16 operands, as they lie in memory."""
        generator = torch.Generator(device).manual_seed(0)

        def random(rows: int, layout: str) -> torch.Tensor:
            shape = (rows, self.k) if layout == "rows" else (self.k, rows)
            whole = shape if self.batch == 1 else (self.batch, *shape)
            return torch.randn(whole, generator=generator, device=device, dtype=torch.bfloat16)

        return random(self.m, self.left), random(self.n, self.right)

    def function(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """The product of operands that lie in memory like those of `operands`."""

        def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            left = a if self.left == "rows" else a.mT
            return left @ (b.mT if self.right == "rows" else b)

        return multiply


def linear(name: str, tokens: int, outputs: int, inputs: int) -> list[Product]:
    """A linear layer's products in one training step, with its weight as [outputs, inputs]."""
    return [
        Product(f"{name} forward", 1, tokens, outputs, inputs),
        Product(f"{name} input gradient", 1, tokens, inputs, outputs, "rows", "columns"),
        Product(f"{name} weight gradient", 1, outputs, inputs, tokens, "columns", "columns"),
    ]


PRODUCTS = [
    *linear("gpt2 qkv", 1024, 2304, 768),
    *linear("gpt2 out", 1024, 768, 768),
    *linear("gpt2 up", 1024, 3072, 768),
    *linear("gpt2 down", 1024, 768, 3072),
    *linear("gpt2 head", 1024, 50257, 768),
    Product("gpt2 scores", 12, 1024, 1024, 64),
    Product("gpt2 mix", 12, 1024, 64, 1024, "rows", "columns"),
    *linear("tinymoe qkv", 2048, 768, 384),
    *linear("tinymoe out", 2048, 384, 384),
    *linear("tinymoe head", 2048, 32000, 384),
]


@dataclass(frozen=True)
class Row:
    """One product as measured. Times in microseconds, rates in TFLOP/s."""

    product: str
    batch: int
    m: int
    n: int
    k: int
    stretto_us: float
    stretto_low_us: float
    stretto_high_us: float
    cublas_us: float
    cublas_low_us: float
    cublas_high_us: float
    stretto_tflops: float
    cublas_tflops: float
    ratio: float  #: Stretto's rate over cuBLAS's
    error: float  #: largest error over the largest result, against F32 products
    cublas_error: float


def measure(product: Product, rounds: int = 7, repeats: int = 50) -> Row:
    """Times both in turns: one launch that repeats the program, and a CUDA graph of as many torch calls."""
    a, b = product.operands("cuda")
    multiply = product.function()
    step = stretto.compile(multiply, (a, b))
    exact = multiply(a.float(), b.float())
    scale = exact.abs().max()
    graph = torch.cuda.CUDAGraph()
    multiply(a, b)
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            result = multiply(a, b)
    times: dict[str, list[float]] = {"stretto": [], "cublas": []}
    runs = {"stretto": lambda: step.repeat(repeats, a, b), "cublas": graph.replay}
    for number in range(rounds + 1):
        for name, run in runs.items():
            elapsed = _elapsed_us(run) / repeats
            if number > 0:
                times[name].append(elapsed)
    ours, ours_low, ours_high = median_interval([times["stretto"]])
    theirs, theirs_low, theirs_high = median_interval([times["cublas"]])
    error, cublas_error = (float((each.float() - exact).abs().max() / scale) for each in (step(a, b), result))
    return Row(
        product.name,
        product.batch,
        product.m,
        product.n,
        product.k,
        *(ours, ours_low, ours_high, theirs, theirs_low, theirs_high),
        product.operations / ours / 1e6,
        product.operations / theirs / 1e6,
        theirs / ours,
        error,
        cublas_error,
    )


def _elapsed_us(run: Callable[[], Any]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3


def markdown(rows: Iterable[Row]) -> str:
    """A table of rates and ratios."""
    lines = [
        "| product | shape | stretto, us | cuBLAS, us | stretto, TFLOP/s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.product} | {row.batch} x {row.m} x {row.n} x {row.k} | {row.stretto_us:.1f} "
        f"| {row.cublas_us:.1f} | {row.stretto_tflops:.0f} | {row.ratio:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)
