"""Every header of the host side compiles on its own."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tree import ROOT, tracked

COMPILER = os.environ.get("CXX", "g++")


def compile_alone(header: Path) -> str:
    """Compiler messages for a file that includes nothing but `header`; empty if it compiles."""
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", f"-I{ROOT / 'src'}"]
    run = subprocess.run(
        [COMPILER, *flags, "-x", "c++", "-"],
        input=f'#include "{header.relative_to(ROOT)}"\n',
        capture_output=True,
        text=True,
    )
    return run.stderr if run.returncode else ""


def test_headers_are_self_contained():
    assert shutil.which(COMPILER), f"{COMPILER} is needed to check headers"
    headers = tracked("src/*.h", "abi/*.h", "backends/*.h", "runtime/*.h", "cli/*.h")
    assert len(headers) > 20
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        messages = [message for message in pool.map(compile_alone, headers) if message]
    assert not messages, "\n".join(messages)


def test_a_header_that_lacks_an_include_is_found():
    header = ROOT / "build" / "not_self_contained.h"
    header.parent.mkdir(exist_ok=True)
    header.write_text("std::string name();\n")
    try:
        assert "std" in compile_alone(header)
    finally:
        header.unlink()
