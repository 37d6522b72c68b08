"""The C++ example that runs a .pt2 does so, and the command line computes what PyTorch computes."""

import subprocess

import numpy as np
import pytest
from tree import ROOT

BUILD = ROOT / "build" / "release"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A small network, its .pt2 file, and an input."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.GELU(), torch.nn.Linear(48, 8)).eval()
    x = torch.randn(5, 32)
    path = tmp_path_factory.mktemp("examples") / "model.pt2"
    torch.export.save(torch.export.export(model, (x,)), path)
    return model, path, x


def test_run_pt2_runs_without_python(exported):
    _, path, _ = exported
    run = subprocess.run([BUILD / "examples" / "run_pt2", path], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "f32[5,8]" in run.stdout


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_command_line_computes_what_pytorch_computes(exported, backend, tmp_path):
    model, path, x = exported
    np.save(tmp_path / "x.npy", x.numpy())
    package = tmp_path / "model.stretto"
    subprocess.run([BUILD / "stretto", "compile", path, "-o", package, "--machine", "cpu"], check=True)
    command = ["run", package, "--backend", backend, "--input", "input=x.npy", "--output", "out"]
    run = subprocess.run([BUILD / "stretto", *command], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (result,) = (tmp_path / "out").glob("*.npy")
    # Two products of at most 48 terms below 4: 1e-5 is 50 roundings at 2^-24 each.
    np.testing.assert_allclose(np.load(result), model(x).detach().numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "none.stretto"], "stretto: none.stretto: there is no such file\n"),
        (["dump", "none.pt2", "--stage", "graph"], "stretto: none.pt2: there is no such file\n"),
        (
            ["compile", "none.pt2", "-o", "x", "--machine", "tpu"],
            "stretto: unknown machine 'tpu'; known: 'cpu', 'h200', or a path to a machine file\n",
        ),
        (
            ["tune", "model.stretto"],
            "stretto: model.stretto: a package holds a plan, but no graph to plan again; "
            "give the .pt2 that it was compiled from\n",
        ),
        (
            ["probe", "--backend", "cpu", "-o", "x.json"],
            "stretto: machine 'h200' is a GPU: probe it with --backend cuda\n",
        ),
    ],
)
def test_the_command_line_says_what_is_wrong(arguments, message, tmp_path):
    run = subprocess.run([BUILD / "stretto", *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == message


def test_an_input_that_is_not_given_says_how_to_give_it(exported, tmp_path):
    _, path, _ = exported
    package = tmp_path / "model.stretto"
    subprocess.run([BUILD / "stretto", "compile", path, "-o", package, "--machine", "cpu"], check=True)
    run = subprocess.run([BUILD / "stretto", "run", package], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == (
        "stretto: input 'input' (f32[5,32]) is not given; "
        "add --input input=FILE.npy, --input input=random, or --seed N for all inputs\n"
    )


def test_a_probe_writes_a_machine_that_programs_can_be_compiled_for(exported, tmp_path):
    _, path, _ = exported
    probe = [BUILD / "stretto", "probe", "--machine", "cpu", "--backend", "cpu", "-o", "mine.json"]
    table = subprocess.run(probe, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "counter_us" in table
    assert "chained products, busy bus" in table
    compile = [BUILD / "stretto", "compile", path, "-o", "model.stretto", "--machine", "mine.json"]
    subprocess.run(compile, cwd=tmp_path, check=True)


def test_tuning_writes_a_package_and_keeps_what_it_measured(exported, tmp_path, monkeypatch):
    model, path, x = exported
    monkeypatch.setenv("STRETTO_CACHE_DIR", str(tmp_path / "cache"))
    np.save(tmp_path / "x.npy", x.numpy())
    tune = [BUILD / "stretto", "tune", path, "--machine", "cpu", "-o", "tuned.stretto"]
    first = subprocess.run(tune, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    again = subprocess.run(tune, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "untuned" in first
    assert again == first  # times that were measured anew would differ
    run = ["run", "tuned.stretto", "--input", "input=x.npy", "--output", "out"]
    subprocess.run([BUILD / "stretto", *run], cwd=tmp_path, check=True, capture_output=True)
    (result,) = (tmp_path / "out").glob("*.npy")
    np.testing.assert_allclose(np.load(result), model(x).detach().numpy(), rtol=0, atol=1e-5)


def test_every_command_has_help():
    commands = ["compile", "run", "verify", "dump", "explain", "trace", "probe", "tune"]
    for command in [[], *([name] for name in commands)]:
        run = subprocess.run([BUILD / "stretto", *command, "--help"], capture_output=True, text=True)
        assert run.returncode == 0
        assert "Usage" in run.stdout
