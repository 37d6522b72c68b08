"""README.md is true: its commands and Python run, its C++ is in a tested example, its links lead on."""

import re
import shlex
import subprocess
import textwrap

import pytest
from tree import ROOT

README = (ROOT / "README.md").read_text()
STRETTO = ROOT / "build" / "release" / "stretto"


def blocks(language: str) -> list[str]:
    """Fenced code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[list[str]]:
    """Shell lines that start with `program`, split into words."""
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    return [words for words in lines if words and words[0] == program]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the snippets run; files that one writes are there for the next."""
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def names():
    """The names that the Python snippets take for granted: a small model, and a small language model."""
    torch = pytest.importorskip("torch")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return {
        "model": torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval(),
        "example_inputs": (torch.randn(4, 32),),
        "language_model": LlamaForCausalLM(config).to(torch.bfloat16).eval(),
        "input_ids": torch.tensor([[3, 14, 15]]),
    }


def test_every_block_has_a_language_that_is_tested():
    languages = re.findall(r"^```(\w*)\n(?:.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert languages
    assert set(languages) <= {"sh", "python", "cpp"}


def test_make_targets_exist():
    targets = [words[1] for words in commands("make")]
    assert targets[:2] == ["demo", "test"]
    for target in targets:
        subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)


def test_python_snippets_run(names, folder, monkeypatch):
    import torch

    monkeypatch.chdir(folder)
    expected = names["model"](*names["example_inputs"])  # before a snippet trains it
    results = []
    for snippet in blocks("python"):
        exec(compile(snippet, "README.md", "exec"), names)
        results.append(names["y"])
    assert len(results) == 5
    for result in results:
        torch.testing.assert_close(result, expected)


def test_commands_run(names, folder):
    import torch

    program = torch.export.export(names["model"], names["example_inputs"])
    torch.export.save(program, folder / "model.pt2")
    shown = commands("stretto")
    expected = "compile verify explain run trace dump probe tune"
    assert [words[1] for words in shown] == expected.split()
    for words in shown:
        run = subprocess.run([STRETTO, *words[1:]], cwd=folder, capture_output=True, text=True)
        assert run.returncode == 0, f"{shlex.join(words)}\n{run.stderr}"
        assert run.stdout


def test_cpp_snippets_are_part_of_an_example():
    examples = "\n".join(textwrap.dedent(path.read_text()) for path in sorted(ROOT.glob("examples/*.cpp")))
    squeezed = " ".join(examples.split())
    for snippet in blocks("cpp"):
        assert " ".join(snippet.split()) in squeezed


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []
