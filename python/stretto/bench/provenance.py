"""What every recorded result names: how, when and with what it was measured."""

import platform
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

import torch
import transformers


def provenance() -> dict[str, str]:
    """Command, date, commit of this checkout, device and versions."""
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "command": shlex.join(["python", *sys.orig_argv[1:]]),
        "date": date.today().isoformat(),
        "commit": commit or "unknown",
        "device": device,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
