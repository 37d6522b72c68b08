"""Data flows from the top of CMakeLists.txt's list of folders to the bottom, and includes follow it."""

from pathlib import Path

import pytest
from tree import ROOT, folders, includes, tracked

ALLOWED = folders()
# Ground shared by host and device, and interfaces that lie above the folders that implement them.
SHARED = {"abi", "backends"}


def folder_of(path: Path) -> str | None:
    """The folder of CMakeLists.txt that a path lies in."""
    parent = path.relative_to(ROOT).parent
    return next((str(each) for each in (parent, *parent.parents) if str(each) in ALLOWED), None)


def resolve(included: str, includer: Path) -> Path | None:
    """The file that an include names, searched as the compiler does."""
    candidates = (includer.parent / included, ROOT / "src" / included, ROOT / included)
    return next((each for each in candidates if each.is_file()), None)


def violations(includer: Path, text_includes: list[str]) -> list[str]:
    """One sentence for each include that the folder order forbids."""
    here = folder_of(includer)
    if here is None:
        return []
    found = []
    for included in text_includes:
        target = resolve(included, includer)
        if target is None:
            continue
        there = str(target.relative_to(ROOT).parent)
        if there not in ALLOWED[here] | SHARED:
            names = ", ".join(sorted(ALLOWED[here]))
            found.append(f"{includer.relative_to(ROOT)} includes {included}; {here} may include: {names}")
    return found


def test_the_folder_list_is_understood():
    assert ALLOWED["src/base"] == {"src/base"}
    assert ALLOWED["src/graph"] == {"src/base", "src/graph"}
    assert "src/verify" not in ALLOWED["src/emit"]
    assert "src/emit" in ALLOWED["cli"]


def test_a_backward_include_is_found():
    faults = violations(ROOT / "src/graph/graph.h", ["base/ids.h", "fuse/region.h"])
    assert faults == ["src/graph/graph.h includes fuse/region.h; src/graph may include: src/base, src/graph"]


def test_every_source_folder_is_in_the_list():
    sources = tracked("src/*.h", "src/*.cpp", "backends/*/*.cpp", "runtime/*.cpp", "cli/*.cpp")
    assert sources
    assert [str(path) for path in sources if folder_of(path) is None] == []


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_includes_follow_the_folder_order(folder):
    faults = [
        fault
        for path in tracked(f"{folder}/*.h", f"{folder}/*.cpp")
        for fault in violations(path, includes(path))
    ]
    assert not faults, "\n".join(faults)
