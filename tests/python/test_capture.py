import json

import pytest
import stretto
import torch
from models import FAMILIES, small_model
from stretto.capture import Fixed, capture, export, functional


def operations(captured):
    program = json.loads(captured.program_json)
    return {node["target"] for node in program["graph_module"]["graph"]["nodes"]}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_decoder_takes_a_token_and_a_position(family):
    captured = capture(stretto.export_decoder(small_model(family), max_cache_len=32))
    assert captured.inputs == ("input_ids", "cache_position")
    assert len(captured.outputs) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_stays_one_operation(family):
    captured = capture(stretto.export_decoder(small_model(family), max_cache_len=32))
    assert "torch.ops.aten.scaled_dot_product_attention.default" in operations(captured)
    assert not {op for op in operations(captured) if "softmax" in op}


def test_parameters_are_the_models_own_tensors():
    model = torch.nn.Linear(5, 3)
    captured = capture(export(model, torch.randn(2, 5)))
    assert captured.tensors["weight"].data_ptr() == model.weight.data_ptr()
    assert captured.tensors["bias"].data_ptr() == model.bias.data_ptr()


def test_cache_tensors_are_captured_once_and_as_state():
    program = stretto.export_decoder(small_model("llama"), max_cache_len=32)
    mutated = {s.target for s in program.graph_signature.output_specs if s.kind.name == "BUFFER_MUTATION"}
    assert {name.rsplit(".", 1)[-1] for name in mutated} == {
        f"{part}_{layer}" for part in ("key_cache", "value_cache", "cumulative_length") for layer in (0, 1)
    }
    assert not program.graph_signature.lifted_tensor_constants


def test_exporting_a_decoder_leaves_the_model_as_it_was():
    model = small_model("llama").train()
    before = dict(model.generation_config.to_dict())
    stretto.export_decoder(model, max_cache_len=32)
    assert model.generation_config.to_dict() == before
    assert model.training


def test_python_values_are_part_of_the_program():
    captured = capture(export(lambda x, k: (x * k, k, None), (torch.randn(3), 4)))
    assert captured.inputs[1] == Fixed(4)
    assert captured.outputs[1:] == (Fixed(4), Fixed(None))


def test_inputs_of_a_function_keep_their_names():
    def scaled(signal, gain):
        return signal * gain

    assert capture(export(scaled, (torch.randn(3), torch.randn(3)))).inputs == ("signal", "gain")


def test_strided_parameters_are_made_dense():
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.randn(4, 6).t())
    model.forward = lambda x: x @ model.weight
    tensors = capture(export(model, torch.randn(2, 6))).tensors
    (weight,) = tensors.values()
    assert weight.is_contiguous()
    torch.testing.assert_close(weight, model.weight.detach())


def test_a_changed_buffer_must_be_dense():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4, 6).t())

        def forward(self, x):
            self.total.add_(x)
            return self.total.sum()

    with pytest.raises(
        stretto.UserError, match=r"buffer 'total' is changed by the model but is not contiguous"
    ):
        capture(export(Counter(), torch.randn(6, 4)))


def test_an_exported_program_survives_the_archive(tmp_path):
    model = small_model("llama")
    path = tmp_path / "step.pt2"
    program = stretto.export_decoder(model, max_cache_len=32, path=str(path))
    loaded = capture(functional(torch.export.load(path)))
    assert operations(loaded) == operations(capture(program))


def test_data_dependent_models_are_refused_with_pytorchs_reason():
    def branches(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(stretto.UserError, match="PyTorch cannot export this model"):
        export(branches, torch.randn(3))


@pytest.mark.parametrize("wrong", [3, "text", None])
def test_only_modules_and_functions_are_exported(wrong):
    with pytest.raises(stretto.InputTypeError, match="neither a module nor a function"):
        export(wrong, torch.randn(3))


def test_a_model_that_is_no_language_model_has_no_decode_step():
    with pytest.raises(stretto.InputTypeError, match="not a Hugging Face causal language model"):
        stretto.export_decoder(torch.nn.Linear(3, 3))


class Counter(torch.nn.Module):
    """Its buffer is a part of its parameter."""

    def __init__(self, begin, end):
        super().__init__()
        self.whole = torch.nn.Parameter(torch.arange(8.0))
        self.register_buffer("total", torch.zeros(end - begin))
        self.total.data = self.whole.data[begin:end]

    def forward(self, x):
        return self.total.add_(x).sum() + self.whole.sum()


def test_a_buffer_that_changes_within_a_parameter_is_refused():
    with pytest.raises(stretto.UserError, match="PyTorch cannot export this model"):
        stretto.compile(Counter(2, 5), torch.ones(3))


def test_tensors_that_only_lie_side_by_side_may_change():
    model = Counter(2, 5)
    model.whole = torch.nn.Parameter(model.whole.detach()[5:])
    assert stretto.compile(model, torch.ones(3))(torch.ones(3)).item() == (3 + 4 + 5) + (5 + 6 + 7)


def test_tensors_that_nobody_changes_may_share_memory():
    model = Counter(0, 8)
    model.forward = lambda x: x * model.total + model.whole
    assert torch.equal(stretto.compile(model, torch.ones(8))(torch.ones(8)), 2 * torch.arange(8.0))
