"""Finds NVRTC, CUDA's run-time compiler, where pip installed it."""

import os
from importlib.util import find_spec
from pathlib import Path

_VARIABLE = "STRETTO_NVRTC"


def locate() -> None:
    """Points the extension module at the newest NVRTC of the nvidia wheels, unless $STRETTO_NVRTC is set."""
    spec = find_spec("nvidia")
    if _VARIABLE in os.environ or spec is None:
        return
    folders = spec.submodule_search_locations or []
    found = [path for folder in folders for path in Path(folder).glob("*/lib/libnvrtc.so.*")]
    if found:
        os.environ[_VARIABLE] = str(max(found, key=lambda path: int(path.suffix[1:])))
