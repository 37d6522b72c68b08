"""Times one decode step of SmolLM2-135M's shape (random weights, batch 1) on a GPU.

    python benchmarks/decode_step.py [--context 128] [--baselines] [--json out.json]

Reports the median over repetitions of: the step launched back to back on the current stream, on a side
stream, and replayed from a CUDA graph; with --baselines also the same exported step compiled by PyTorch
(default and max-autotune) and replayed from a CUDA graph, and the eager model. Each repetition times 50 steps
between two CUDA events. The weights (269 MB) exceed the L2 cache, so every step reads them from memory. Exit
status 1 if the step's logits are further from float64 than 1.2 times eager's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import stretto  # noqa: E402
import torch  # noqa: E402
from stretto.bench.provenance import provenance  # noqa: E402
from stretto.checks import decode_accuracy  # noqa: E402

STEPS = 50
REPETITIONS = 20


def main() -> int:
    """Measures, prints a table, writes JSON; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--context", type=int, default=128, help="rows of the key/value cache")
    parser.add_argument("--baselines", action="store_true", help="time PyTorch's own ways, too (minutes)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()

    model = random_model().to("cuda")
    started = time.perf_counter()
    step = stretto.compile(model, batch_size=1, max_cache_len=arguments.context)
    compile_s = time.perf_counter() - started
    tokens = torch.randint(0, model.config.vocab_size, (1, 64), device="cuda")
    accuracy = decode_accuracy(model, step, tokens)
    kernel = step.kernel()
    rows = {
        "back to back": per_step_us(launcher(step, arguments.context)),
        "side stream": on_side_stream(lambda: per_step_us(launcher(step, arguments.context))),
        "CUDA graph": per_step_us(graph_launcher(step, arguments.context)),
    }
    if arguments.baselines:
        rows |= baselines(model, arguments.context)
    results = {
        **provenance(),
        "context": arguments.context,
        "compile_s": compile_s,
        "stages_ms": step.stages,
        "statistics": step.statistics,
        "registers": kernel.registers,
        "spill_bytes": kernel.spill_bytes,
        "error_ratio": accuracy.ratio,
        "faults": accuracy.faults(),
        "median_us": {name: statistics.median(times) for name, times in rows.items()},
        "fastest_us": {name: min(times) for name, times in rows.items()},
        "slowest_us": {name: max(times) for name, times in rows.items()},
    }
    for name, times in rows.items():
        print(f"{name:28} {statistics.median(times):9.1f} us  ({min(times):.1f} to {max(times):.1f})")
    print(f"error ratio {accuracy.ratio:.3f}, {kernel.registers} registers, compiled in {compile_s:.1f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if accuracy.faults() else 0


def random_model() -> torch.nn.Module:
    """SmolLM2-135M's shape with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=49152,
        tie_word_embeddings=True,
        max_position_embeddings=8192,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16).eval()


def launcher(step: Callable[..., Any], context: int) -> Callable[[], None]:
    """One launch at the last position of the context."""
    token = torch.tensor([[17]], device="cuda")
    position = torch.tensor([context - 1], device="cuda")
    return lambda: step(input_ids=token, cache_position=position)


def graph_launcher(step: Callable[..., Any], context: int) -> Callable[[], None]:
    """One launch, captured in a CUDA graph."""
    launch = launcher(step, context)
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph.replay


def eager_launcher(model: torch.nn.Module, context: int) -> Callable[[], None]:
    """The same token by the model itself, with a static cache."""
    from transformers import StaticCache

    cache = StaticCache(config=model.config, max_cache_len=context)
    token = torch.tensor([[17]], device="cuda")
    position = torch.tensor([context - 1], device="cuda")

    @torch.no_grad()
    def run() -> None:
        model(token, past_key_values=cache, cache_position=position, use_cache=True)

    return run


def baselines(model: torch.nn.Module, context: int) -> dict[str, list[float]]:
    """What PyTorch offers for the same step."""
    times = {}
    for mode in ("default", "max-autotune-no-cudagraphs"):
        module = stretto.export_decoder(model, batch_size=1, max_cache_len=context).module()
        compiled = torch.compile(module, mode=mode)
        name = f"torch.compile {mode.removesuffix('-no-cudagraphs')} + graph"
        with torch.no_grad():
            times[name] = per_step_us(graph_launcher(compiled, context))
    times["eager"] = per_step_us(eager_launcher(model, context), steps=5)
    return times


def on_side_stream(measure: Callable[[], list[float]]) -> list[float]:
    """Runs a measurement with another stream as the current one."""
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        times = measure()
    torch.cuda.synchronize()
    return times


def per_step_us(launch: Callable[[], None], steps: int = STEPS) -> list[float]:
    """Microseconds per step of each repetition."""
    for _ in range(3):
        launch()
    times = []
    for _ in range(REPETITIONS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(steps):
            launch()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / steps)
    return times


if __name__ == "__main__":
    sys.exit(main())
