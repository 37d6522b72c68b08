"""Measures how exact compiled decode steps are, against float64 and eager PyTorch, and writes a table.

    python scripts/check_accuracy.py [--device cuda] [--json out.json] [--skip-smollm2]

Checks small random models of several families at batch 1 and 4, then SmolLM2-135M on five prompts. The exit
status is 1 if any step is further from float64 than the allowed ratio times eager's own error, or prefers
another token where eager is sure.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/python", "examples")]

import stretto  # noqa: E402
import torch  # noqa: E402
from stretto.bench.provenance import provenance  # noqa: E402
from stretto.checks import Accuracy, decode_accuracy  # noqa: E402


def main() -> int:
    """Runs all checks; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--machine", help="plan for this machine (default: follows the device)")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--skip-smollm2", action="store_true", help="only the small random models")
    arguments = parser.parse_args()
    results = [*small_models(arguments)]
    if not arguments.skip_smollm2:
        results += smollm2_prompts(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps({**provenance(), "results": results}, indent=1) + "\n")
    wrong = [result["name"] for result in results if result["faults"]]
    print(
        f"{len(results) - len(wrong)} of {len(results)} checks hold"
        + (f"; wrong: {', '.join(wrong)}" if wrong else "")
    )
    return 1 if wrong else 0


def small_models(arguments: argparse.Namespace) -> list[dict]:
    """Two-layer random models."""
    from models import FAMILIES, random_tokens, small_model

    results = []
    for family in FAMILIES:
        for batch in (1, 4):
            model = small_model(family).to(arguments.device)
            step = stretto.compile(model, batch_size=batch, max_cache_len=32, machine=arguments.machine)
            tokens = random_tokens(batch, 24).to(arguments.device)
            results.append(report(f"{family} batch {batch}", decode_accuracy(model, step, tokens)))
    return results


def smollm2_prompts(arguments: argparse.Namespace) -> list[dict]:
    """SmolLM2-135M, greedy."""
    import smollm2
    from test_smollm2 import NEW_TOKENS, PROMPTS

    model, tokenizer = smollm2.load()
    model = model.to(arguments.device)
    step = stretto.compile(model, batch_size=1, max_cache_len=128, machine=arguments.machine)
    generator = stretto.compile_generator(
        model, max_cache_len=128, eos_token_id=(), machine=arguments.machine
    )
    results = []
    for prompt in PROMPTS:
        tokens = tokenizer(prompt, return_tensors="pt").input_ids.to(arguments.device)
        generated = generator.generate(tokens, NEW_TOKENS).to(arguments.device)
        sequence = torch.cat([tokens, generated], dim=1)
        results.append(report(f"smollm2 {prompt!r}", decode_accuracy(model, step, sequence)))
        print("    " + tokenizer.decode(sequence[0]).replace("\n", "\n    "))
    return results


def report(name: str, accuracy: Accuracy) -> dict:
    """Prints a line about one comparison and returns it as a row."""
    faults = accuracy.faults()
    print(
        f"{name}: step {accuracy.step_error:.3e}, eager {accuracy.eager_error:.3e}, "
        f"ratio {accuracy.ratio:.3f}, on average {accuracy.step_mean_error:.3e}, "
        f"{accuracy.eager_mean_error:.3e}; {accuracy.clear_tokens} of {accuracy.positions} tokens clear",
        *[f"\n    {fault}" for fault in faults],
        flush=True,
    )
    return {"name": name, "ratio": accuracy.ratio, **asdict(accuracy), "faults": faults}


if __name__ == "__main__":
    sys.exit(main())
