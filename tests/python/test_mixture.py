"""Training a mixture of experts: unmodified models, groups of tokens known on the device alone."""

import copy

import pytest
import stretto
import torch
from stretto.checks import StaysFloat64
from torch.nn import functional as F
from transformers import (
    GraniteMoeConfig,
    GraniteMoeForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 64,
}
MODELS = {
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES)),
    "granite": lambda: GraniteMoeForCausalLM(GraniteMoeConfig(**SIZES)),
}
IDS = torch.randint(0, SIZES["vocab_size"], (2, 12), generator=torch.Generator().manual_seed(5))


def build(name, experts):
    torch.manual_seed(0)
    model = MODELS[name]()
    model.set_experts_implementation(experts)
    return model


def next_token(model, ids):
    logits = model(input_ids=ids, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())


def gradients(model):
    parameters = dict(model.named_parameters())
    found = torch.autograd.grad(next_token(model, IDS), list(parameters.values()))
    return {name: g.double() for name, g in zip(parameters, found, strict=True)}


def exact_gradients(model):
    with StaysFloat64():
        return gradients(copy.deepcopy(model).double())


def compiled_gradients(model, **options):
    update = stretto.compile_update(
        model, next_token, optimizer=stretto.SGD(lr=0.0, momentum=0.5), example=(IDS,), **options
    )
    update(IDS)
    return {n: update.state[f"optimizer.momentum_buffer.{n}"].double() for n, _ in model.named_parameters()}


def assert_close(ours, eager, exact, factor, rounding):
    for name, wanted in exact.items():
        error = (ours[name] - wanted).norm()
        assert error <= factor * (eager[name] - wanted).norm() + rounding * wanted.norm(), name


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_whole_rows_of_experts_are_as_close_as_eagers(name):
    model = build(name, "batched_mm")
    exact = exact_gradients(model)
    eager = gradients(model)
    assert_close(compiled_gradients(model), eager, exact, 1.2, torch.finfo(torch.float32).eps)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_groups_of_tokens_are_as_close_as_eagers(name):
    model = build(name, "grouped_mm")
    narrow = copy.deepcopy(model).to(torch.bfloat16)
    # Of the same rounded weights, so that all choose the same experts.
    wide = copy.deepcopy(narrow).double()
    wide.set_experts_implementation("eager")
    ours = compiled_gradients(model, compute_dtype=torch.bfloat16)
    assert_close(ours, gradients(narrow), exact_gradients(wide), 1.2, torch.finfo(torch.bfloat16).eps)
