"""Rules for single files: short, finished, nothing that belongs elsewhere."""

import re

from tree import ROOT, tracked

SOURCES = ("*.cpp", "*.h", "*.cuh", "*.cu", "*.py", "*.pyi", "*.cmake", "*CMakeLists.txt", "scripts/*")
LONGEST = 450
# Spelled in two parts, so that this file does not break its own rule.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


def sources():
    """Every file that people write code in."""
    found = tracked(*SOURCES)
    assert len(found) > 30
    return found


def test_files_are_short():
    long = {
        str(p.relative_to(ROOT)): n for p in sources() if (n := len(p.read_text().splitlines())) > LONGEST
    }
    assert long == {}


def test_nothing_is_left_unfinished():
    assert [str(p.relative_to(ROOT)) for p in sources() if UNFINISHED.search(p.read_text())] == []


def test_headers_are_included_once():
    headers = tracked("*.h", "*.cuh")
    assert [str(p.relative_to(ROOT)) for p in headers if "#pragma once" not in p.read_text()] == []


def test_no_binary_files():
    pictures = {".png", ".svg", ".gif"}
    binary = [p for p in tracked() if b"\0" in p.read_bytes()[:4096] and p.suffix not in pictures]
    assert [str(p.relative_to(ROOT)) for p in binary] == []


def test_no_large_files():
    assert {str(p.relative_to(ROOT)) for p in tracked() if p.stat().st_size > 300_000} == set()
