"""Updates of language models from transformers, unmodified, against eager PyTorch."""

import functools

import pytest
import stretto
import torch
from models import random_tokens, small_model
from update_models import assert_gradients_as_close_as_eager, assert_same_trajectory, next_token_loss

FAMILIES = ("gpt2", "llama")


def in_bfloat16(objective, model, ids):
    """The objective as a user computes it in bfloat16 with float32 parameters."""
    narrow = {name: p.bfloat16() for name, p in model.named_parameters()}
    call = functools.partial(torch.func.functional_call, model, narrow, ())
    return objective(lambda **inputs: call(inputs), ids)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_as_close_to_float64_as_eagers(family):
    model = small_model(family, dtype=torch.float32)
    assert_gradients_as_close_as_eager(model, next_token_loss, (random_tokens(2, 24),))


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_through_sums_over_a_vocabulary_are_as_close_to_float64_as_eagers(family):
    model = small_model(family, vocabulary=4100, dtype=torch.float32)
    assert_gradients_as_close_as_eager(model, next_token_loss, (random_tokens(2, 24),))


@pytest.mark.parametrize("tokens", (24, 96))  # attention stores its scores, or computes them anew
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_in_bfloat16_are_as_close_to_float64_as_eagers(family, tokens):
    model = small_model(family, vocabulary=259, dtype=torch.float32)  # the arena pads rows of logits
    assert_gradients_as_close_as_eager(
        model,
        next_token_loss,
        (random_tokens(2, tokens),),
        eager_objective=functools.partial(in_bfloat16, next_token_loss),
        compute_dtype=torch.bfloat16,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_updates_follow_eager(family):
    settings = {"lr": 1e-3, "weight_decay": 0.1}
    assert_same_trajectory(
        stretto.AdamW(**settings, clip_norm=1.0),
        lambda p: torch.optim.AdamW(p, **settings),
        [(random_tokens(2, 24, seed=seed),) for seed in range(4)],
        model=small_model(family, dtype=torch.float32),
        clip=1.0,
        objective=next_token_loss,
    )
