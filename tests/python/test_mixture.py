"""Training a mixture of experts: unmodified models, groups of tokens known on the device alone."""

import copy

import pytest
import torch
from transformers import (
    GraniteMoeConfig,
    GraniteMoeForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)
from update_models import (
    assert_as_close_as_eager,
    assert_gradients_as_close_as_eager,
    compiled_gradients,
    exact_gradients,
    gradients,
    next_token_loss,
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


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_whole_rows_of_experts_are_as_close_as_eagers(name):
    assert_gradients_as_close_as_eager(build(name, "batched_mm"), next_token_loss, (IDS,))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_groups_of_tokens_are_as_close_as_eagers(name):
    model = build(name, "grouped_mm")
    narrow = copy.deepcopy(model).to(torch.bfloat16)
    # Of the same rounded weights, so that all choose the same experts.
    single = copy.deepcopy(narrow)
    single.set_experts_implementation("eager")
    assert_as_close_as_eager(
        compiled_gradients(model, next_token_loss, (IDS,), compute_dtype=torch.bfloat16),
        gradients(narrow, next_token_loss, (IDS,)),
        exact_gradients(single, next_token_loss, (IDS,)),
        torch.bfloat16,
    )
