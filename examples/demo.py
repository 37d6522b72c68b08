"""SmolLM2-135M generates text through one persistent kernel: captured, compiled, proven, run.

    python examples/demo.py [--prompt TEXT] [--tokens N]

Runs on the GPU if there is one that the kernel was built for, and otherwise on the cpu backend, which
executes the same kind of plan on threads. The kernel is compiled for sm_90a either way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

import smollm2
import stretto
import torch
from rich.console import Console
from rich.table import Table

MAX_CACHE_LEN = 256
ARCH = "sm_90a"

console = Console(highlight=False)


def main() -> None:
    """Captures, compiles, proves and runs; prints what came of it."""
    arguments = _arguments()
    with console.status("Starting") as status:
        model, tokenizer = smollm2.load(lambda message: status.update(f"{message} …"))
    seconds: dict[str, float] = {}
    draws = {"temperature": arguments.temperature, "top_p": 0.95, "seed": arguments.seed}
    sampler = stretto.Sampler(**draws) if arguments.temperature else stretto.Sampler()
    options = {"sampler": sampler, "max_cache_len": MAX_CACHE_LEN}
    with _timed("capture", "Capturing decode step and sampler with torch.export", seconds):
        program = stretto.export_generator(model, **options)
    with _timed("plan", "Planning for an H200 and for this computer", seconds):
        planned = stretto.compile(program, machine="h200")
    with _timed("kernel", f"Compiling the kernel for {ARCH} with NVRTC", seconds):
        kernel = planned.kernel(ARCH)
    with _timed("verify", "Proving the plan", seconds):
        faults = planned.verify()
    if faults:
        raise SystemExit("the plan does not verify:\n" + "\n".join(faults))
    generator = _runnable(model, program, options)
    where = torch.cuda.get_device_name() if generator.step.backend == "cuda" else "the cpu backend"
    console.print(f"[bold]SmolLM2-135M-Instruct[/bold], one launch for all tokens, on {where}\n")
    rate = _generate(generator, tokenizer, arguments)
    console.print(_summary(planned, kernel, seconds, model.config.num_hidden_layers, rate, where))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Generate text with SmolLM2-135M through one kernel.")
    parser.add_argument("--prompt", default="Explain in a few sentences why the sky is blue.")
    parser.add_argument("--tokens", type=int, default=96, help="most tokens to generate (default 96)")
    parser.add_argument("--temperature", type=float, default=0, help="0 takes the likeliest (default)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws at other temperatures")
    return parser.parse_args()


@contextmanager
def _timed(key: str, message: str, seconds: dict[str, float]) -> Iterator[None]:
    start = time.perf_counter()
    with console.status(f"{message} …"):
        yield
    seconds[key] = time.perf_counter() - start
    console.print(f"[dim]{message}: {seconds[key]:.2f} s[/dim]")


def _runnable(model: torch.nn.Module, program: torch.export.ExportedProgram, options) -> stretto.Generator:
    if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9:
        with console.status("Preparing the GPU …"):
            return stretto.compile_generator(model.cuda(), **options)
    with console.status("Preparing the cpu backend …"):
        return stretto.Generator(stretto.compile(program))


def _generate(generator: stretto.Generator, tokenizer, arguments: argparse.Namespace) -> float:
    """Streams the answer to the terminal; returns tokens per second."""
    messages = [{"role": "user", "content": arguments.prompt}]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=False
    )
    most = min(arguments.tokens, MAX_CACHE_LEN - prompt.shape[1])
    console.print(f"[bold]> {arguments.prompt}[/bold]")
    tokens: list[int] = []
    shown = ""
    stream = generator.stream(prompt, most)
    with console.status("Reading the prompt …"):
        tokens.append(int(next(stream)))
    start = time.perf_counter()
    for token in stream:
        text = tokenizer.decode(tokens, skip_special_tokens=True)
        # A character can be spread over several tokens: wait until it is whole.
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            console.print(text[len(shown) :], end="", markup=False)
            shown = text
        tokens.append(int(token))
    elapsed = time.perf_counter() - start
    console.print(tokenizer.decode(tokens, skip_special_tokens=True)[len(shown) :] + "\n", markup=False)
    return (len(tokens) - 1) / elapsed


def _summary(planned, kernel, seconds: dict[str, float], layers: int, rate: float, where: str) -> Table:
    counts = planned.statistics
    table = Table(
        title=f"one kernel for {ARCH}, {counts['workers']} workers", show_header=False, title_justify="left"
    )
    hand_offs = counts["counters"] + counts["barriers"]
    table.add_row("regions", f"{counts['regions']:,}")
    table.add_row("tasks", f"{counts['tasks']:,} of {counts['kinds']} kinds")
    table.add_row(
        "hand-offs a layer",
        f"{hand_offs / layers:.1f} ({counts['counters']} counters, {counts['barriers']} barriers)",
    )
    table.add_row("arena", f"{counts['arena_bytes'] / 1024:,.0f} KiB")
    table.add_row(
        "weights",
        f"{counts['parameter_bytes'] / 1e6:,.1f} MB, {counts['streamed_bytes'] / 1e6:,.1f} MB streamed",
    )
    table.add_row("kernel", f"{kernel.registers} registers a thread, {kernel.spill_bytes} bytes spilled")
    for stage, milliseconds in planned.stages.items():
        table.add_row(f"  {stage}", f"{milliseconds:,.0f} ms")
    table.add_row("  NVRTC", f"{seconds['kernel'] * 1000:,.0f} ms")
    table.add_row("tokens per second", f"{rate:,.1f} on {where}")
    return table


if __name__ == "__main__":
    main()
