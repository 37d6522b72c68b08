"""docs/architecture.md shows what the compiler really prints for the model on that page."""

import re
import subprocess

import pytest
from tree import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
STRETTO = ROOT / "build" / "release" / "stretto"


def blocks(language: str) -> list[str]:
    """Fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """All stages of the page's model, one after the other."""
    torch = pytest.importorskip("torch")
    names = {"torch": torch}
    (source,) = blocks("python")
    exec(source, names)
    model = names["Model"]().bfloat16().eval()
    path = tmp_path_factory.mktemp("architecture") / "model.pt2"
    torch.export.save(torch.export.export(model, (torch.randn(1, 576).bfloat16(),)), path)
    text = ""
    for stage in ("graph", "regions", "source"):
        command = [STRETTO, "dump", path, "--stage", stage, "--machine", "h200"]
        text += subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return text


@pytest.mark.parametrize("block", blocks("text"))
def test_the_page_shows_what_the_compiler_prints(block, dumps):
    assert block in dumps


def test_the_files_that_it_names_exist():
    named = re.findall(r"`((?:src|backends|device|abi|python|tests)/[\w/.]+)`", PAGE)
    assert len(named) > 15
    assert [
        each for each in named if not (ROOT / each).exists() and not (ROOT / "device" / each).exists()
    ] == []
