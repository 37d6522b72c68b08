"""The parts of the benchmarks that need no GPU."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from stretto.bench import decode, results, shapes, statistics, systems, train, updates, workloads
from stretto.bench.__main__ import parse
from stretto.bench.plain import PlainDecoder

SMALL = {
    "llama": shapes.Shape("llama", 64, 96, 2, 4, 2, 256),
    "qwen2": shapes.Shape("qwen2", 64, 96, 2, 4, 2, 256),
}


@pytest.mark.parametrize("family", SMALL)
def test_the_plain_decoder_computes_what_transformers_computes(family):
    shape = SMALL[family]
    model = shapes.random_model(shape, "cpu")
    tokens = torch.randint(0, shape.vocabulary, (2, 6))
    with torch.no_grad():
        expected = model.double()(tokens).logits
        plain = PlainDecoder(model.bfloat16(), shape, batch=2, context=8).double()
        rows = [plain(tokens[:, at : at + 1], torch.tensor([at])) for at in range(6)]
    error = (torch.stack(rows, dim=1) - expected).norm() / expected.norm()
    assert error < 2e-2  # its tables of cosines are BF16


def test_weight_bytes_count_what_the_model_has():
    shape = SMALL["llama"]
    model = shapes.random_model(shape, "cpu")
    matrices = sum(each.numel() for each in model.parameters() if each.dim() == 2)
    assert shape.weight_bytes() == 2 * matrices


def test_the_interval_of_a_median_holds_the_median():
    generator = np.random.default_rng(3)
    groups = [generator.normal(100, 5, size=20) for _ in range(3)]
    median, low, high = statistics.median_interval(groups)
    assert median == np.median(np.concatenate(groups))
    assert low < median < high
    assert high - low < 10


def test_processes_that_differ_widen_the_interval():
    same = statistics.median_interval([[100.0, 101.0, 102.0]] * 3)
    apart = statistics.median_interval([[90.0, 91.0, 92.0], [100.0, 101.0, 102.0], [110.0, 111.0, 112.0]])
    assert apart[2] - apart[1] > same[2] - same[1]


@pytest.mark.parametrize("groups", [[], [[1.0], []]])
def test_an_interval_needs_values(groups):
    with pytest.raises(ValueError, match="at least one group"):
        statistics.median_interval(groups)


def row(system, median, fault=None):
    times = (median, median, median, 0.5, 1.0) if median else (None,) * 5
    return decode.Row("Toy", 1, 128, system, *times, fault=fault)


def test_the_table_shows_losses_and_faults():
    table = decode.markdown([row("Stretto", 100.0), row("faster", 80.0), row("broken", None, "no memory")])
    lines = table.splitlines()
    assert lines[4].startswith("| faster | 80.0")
    assert lines[4].endswith("| 0.80 |")
    assert lines[6] == "| broken | - | - | - | - | no memory |"


def test_the_table_says_what_each_part_is_worth():
    every = {name: 100.0 + 10 * number for number, name in enumerate(systems.SYSTEMS)}
    lines = decode.markdown([row(name, median) for name, median in every.items()]).splitlines()
    table = lines[lines.index("| without it | us per token | with it | ratio |") + 2 :]
    assert len(table) == len(systems.ABLATIONS)
    _, off, on = systems.ABLATIONS[1]
    ratio = every[off] / every[on]
    assert table[1] == f"| epoch-tagged words | {every[off]:.1f} | {every[on]:.1f} | {ratio:.2f} |"


def test_the_command_of_the_page_is_one():
    page = Path(__file__).parents[2] / "benchmarks" / "README.md"
    (command,) = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    words = shlex.split(command.replace("\\\n", " "))
    arguments = parse(words[words.index("stretto.bench") + 1 :])
    assert arguments.workloads == ["mlp", "online"]
    assert set(arguments.systems) <= updates.SYSTEMS.keys()
    assert arguments.stop_after == 500


def test_results_are_written_whole(tmp_path):
    path = tmp_path / "results.json"
    results.write([row("Stretto", 100.0)], {"date": "2026-01-01"}, path)
    assert '"median_us": 100.0' in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_tokens_count_as_wrong_only_where_eager_is_sure():
    reference = torch.tensor([[[4.0, 1.0, 0.0], [1.01, 1.0, 0.0], [0.0, 3.0, 1.0]]], dtype=torch.float64)
    eager = reference.float() + 0.1 * torch.tensor([-1.0, 1.0, 0.5])
    assert decode.wrong_tokens(torch.tensor([[0, 1, 1]]), eager, reference) == 0
    assert decode.wrong_tokens(torch.tensor([[2, 0, 0]]), eager, reference) == 2


def test_the_error_ratio_is_that_of_the_worst_positions():
    reference = torch.rand(1, 3, 8, dtype=torch.float64) + 1
    off = torch.zeros_like(reference)
    off[0, 1, 2] = 0.01
    assert decode.error_ratio(reference + 3 * off, reference + off, reference) == pytest.approx(3)


def train_row(system, median, fault=None):
    numbers = (median, median, median, 0.5, 1e-3) if median else (None,) * 5
    return train.Row("Toy", 64, system, *numbers, fault=fault)


def test_the_table_of_updates_shows_losses_and_faults():
    rows = [
        train_row("Stretto's tiles as kernels + graph", 1.0),
        train_row("torch.compile", None, "too slow"),
        train_row("eager", 8.0),
        train_row("Stretto, many updates a launch", 2.0),
    ]
    lines = [line.strip("| ").split(" | ") for line in train.markdown(rows).splitlines()]
    assert lines[2][1] == "ms per update"
    assert [(line[0], line[-1]) for line in lines[4:]] == [
        ("Stretto's tiles as kernels + graph", "0.50"),
        ("Stretto, many updates a launch", "1.00"),
        ("eager", "4.00"),
        ("torch.compile", "too slow"),
    ]


def test_the_error_of_losses_is_relative_and_never_lost():
    assert train.loss_error([2.0, 4.0], [2.0, 6.0]) == pytest.approx(0.5)
    assert train.loss_error([float("nan"), 4.0], [2.0, 4.0]) == float("inf")
    assert train.loss_error([4.0, float("nan")], [4.0, 4.0]) == float("inf")


def test_the_mixture_has_the_parameters_of_its_name():
    with torch.device("meta"):
        model = workloads.Mixture(workloads.MixtureShape())
    assert sum(parameter.numel() for parameter in model.parameters()) == 199_837_056
