"""Checks that decoding repeats itself: the same bits in fresh processes, the same tokens over many steps.

    python scripts/check_repeatability.py [--device cuda] [--model SmolLM2-135M] [--processes 50]
                                          [--steps 1000000] [--json out.json]

One generator is compiled and saved. Fresh processes, several at a time, load it and decode the same prompt;
what their caches and tokens hold must be equal bit for bit. Then one process generates from that prompt again
and again until there have been so many steps: every pass must give the first one's tokens. The exit status is
1 if anything differs. A launch that hangs ends by its own time-out, with an error that names what waited.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/python")]

import stretto  # noqa: E402
import torch  # noqa: E402
from rich.progress import Progress  # noqa: E402
from stretto.bench.provenance import provenance  # noqa: E402
from stretto.bench.shapes import SHAPES, random_model  # noqa: E402

PROMPT = 4


def main() -> int:
    """Runs both checks; returns the exit status."""
    arguments = _arguments()
    if arguments.load is not None:
        print(digest(stretto.Generator(stretto.load(arguments.load, device=arguments.device))))
        return 0
    generator = _generator(arguments)
    result = {"model": arguments.model, "context": arguments.context, "processes": arguments.processes}
    with tempfile.TemporaryDirectory() as folder, Progress(transient=True) as progress:
        path = Path(folder) / "generator.stretto"
        generator.step.save(path)
        digests = fresh_digests(path, arguments, progress)
        started = time.perf_counter()
        steps, passes, wrong = soak(generator, arguments.steps, progress)
        seconds = time.perf_counter() - started
    result |= {"digests": digests, "steps": steps, "passes": passes}
    result |= {"wrong_passes": wrong, "seconds": seconds}
    if arguments.json:
        arguments.json.write_text(json.dumps(provenance() | result, indent=1) + "\n")
    print(f"{arguments.processes} fresh processes: {len(digests)} different result(s)")
    print(f"{steps} steps in {passes} passes, {seconds:.1f} s: {wrong} pass(es) with other tokens")
    return 1 if wrong or len(digests) > 1 else 0


def digest(generator: stretto.Generator) -> str:
    """A hash of the tokens of one pass and of all that the step keeps, caches included."""
    hashed = hashlib.sha256(one_pass(generator).numpy().tobytes())
    for name, tensor in sorted(generator.step.state.items()):
        hashed.update(name.encode() + tensor.cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def one_pass(generator: stretto.Generator) -> torch.Tensor:
    """The tokens that follow the prompt until the cache is full. [1, count]"""
    prompt = torch.arange(1, PROMPT + 1, device=generator.step.device)[None]
    context = generator.step.state["tokens"].shape[1] - 1
    return generator.generate(prompt, context - PROMPT + 1)


def fresh_digests(path: Path, arguments: argparse.Namespace, progress: Progress) -> dict[str, int]:
    """What fresh processes found, and how many found it. Raises RuntimeError where one of them failed."""
    command = [sys.executable, __file__, "--load", str(path), "--device", arguments.device]
    found: Counter[str] = Counter()
    bar = progress.add_task("fresh processes", total=arguments.processes)
    for first in range(0, arguments.processes, arguments.together):
        count = min(arguments.together, arguments.processes - first)
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(count)
        ]
        for process in running:
            output, errors = process.communicate()
            if process.returncode != 0:
                raise RuntimeError(f"a fresh process failed:\n{errors}")
            found[output.strip()] += 1
            progress.advance(bar)
    return dict(found)


def soak(generator: stretto.Generator, steps: int, progress: Progress) -> tuple[int, int, int]:
    """Generates until there have been so many steps: (steps, passes, passes with other tokens)."""
    expected = one_pass(generator)
    each = expected.shape[1] + PROMPT - 1
    bar = progress.add_task("steps", total=steps)
    done, passes, wrong = each, 1, 0
    while done < steps:
        wrong += not one_pass(generator).equal(expected)
        done, passes = done + each, passes + 1
        progress.update(bar, completed=done)
    return done, passes, wrong


def _generator(arguments: argparse.Namespace) -> stretto.Generator:
    if arguments.model == "small":
        from models import small_model

        model = small_model("llama").to(arguments.device)
    else:
        model = random_model(SHAPES[arguments.model], arguments.device)
    return stretto.compile_generator(model, max_cache_len=arguments.context, eos_token_id=())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--model", default="small", choices=("small", *SHAPES), help="with random weights")
    parser.add_argument("--context", type=int, default=128, help="positions of one pass (default 128)")
    parser.add_argument("--processes", type=int, default=50, help="fresh ones (default 50)")
    parser.add_argument("--together", type=int, default=8, help="of them at one time (default 8)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="at least (default 1,000,000)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
