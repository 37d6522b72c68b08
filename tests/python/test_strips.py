"""Updates whose logits are computed in strips, again and again, and never stored."""

import functools

import pytest
import stretto
import torch
import torch.nn.functional as F
from models import random_tokens, small_model
from stretto import memory
from update_models import assert_gradients_as_close_as_eager, assert_same_trajectory

VOCABULARY = 1030  # no multiple of a strip's columns


class Tied(torch.nn.Module):
    """Logits by the weight that embeds tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(VOCABULARY, 32)
        torch.nn.init.normal_(self.embedding.weight, std=0.2)
        self.inner = torch.nn.Linear(32, 32)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, ids):
        x = self.embedding(ids)
        return self.norm(x + torch.tanh(self.inner(x))) @ self.embedding.weight.T


def next_token_loss(model, ids, **options):
    logits = model(ids)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten(), **options)


def smoothed_loss(model, ids):
    return next_token_loss(model, ids, label_smoothing=0.1, ignore_index=5)


def some_tokens():
    ids = random_tokens(2, 24) % VOCABULARY
    ids[0, 3:6] = 5  # ignored by one of the losses
    ids[1, :2] = torch.tensor([0, VOCABULARY - 1])
    return ids


@pytest.mark.parametrize("objective", [next_token_loss, smoothed_loss])
def test_gradients_are_as_close_to_float64_as_eagers(objective):
    assert_gradients_as_close_as_eager(Tied(), objective, (some_tokens(),), logits=5)


def test_gradients_of_gpt2_in_bfloat16_are_as_close_to_float64_as_eagers():
    def loss(model, ids):
        return model(input_ids=ids, labels=ids, use_cache=False).loss  # transformers' own

    def eager_loss(model, ids):
        narrow = {name: p.bfloat16() for name, p in model.named_parameters()}
        call = functools.partial(torch.func.functional_call, model, narrow, ())
        return loss(lambda **inputs: call(inputs), ids)

    assert_gradients_as_close_as_eager(
        small_model("gpt2", vocabulary=VOCABULARY, dtype=torch.float32),
        loss,
        (some_tokens(),),
        eager_objective=eager_loss,
        compute_dtype=torch.bfloat16,
        logits=4,
    )


def test_updates_follow_eager():
    settings = {"lr": 1e-3, "weight_decay": 0.1}
    assert_same_trajectory(
        stretto.AdamW(**settings, clip_norm=1.0),
        lambda p: torch.optim.AdamW(p, **settings),
        [(random_tokens(2, 24, seed=seed) % VOCABULARY,) for seed in range(3)],
        model=Tied(),
        clip=1.0,
        objective=next_token_loss,
        logits=3,
    )


TOKENS, HIDDEN, COLUMNS = 2048, 64, 40000


def large_vocabulary(**options):
    """An update, compiled for a GPU, whose logits have 164 MB in bfloat16."""
    model = torch.nn.Linear(HIDDEN, COLUMNS, bias=False)

    def objective(model, x, labels):
        return F.cross_entropy(model(x).float(), labels)

    return stretto.compile_update(
        model,
        objective,
        optimizer=stretto.SGD(),
        example=(torch.randn(TOKENS, HIDDEN), torch.randint(COLUMNS, (TOKENS,))),
        compute_dtype=torch.bfloat16,
        backend="cpu",
        machine="h200",
        **options,
    )


def test_the_arena_has_two_strips_instead_of_all_logits_and_their_gradient():
    logits = 2 * TOKENS * COLUMNS
    stored, strips = (
        large_vocabulary(logits=each).step.program.statistics["arena_bytes"] for each in ("stored", "strips")
    )
    assert stored > 2 * logits
    # Two of five strips, and the weight's gradient and its pieces.
    weight = 2 * HIDDEN * COLUMNS
    assert strips < 0.45 * logits + 2 * weight + 4 * TOKENS * HIDDEN * 40


def test_an_update_that_does_not_fit_says_what_strips_would_save(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 100_000_000)
    with pytest.raises(stretto.UserError, match=r'\n  logits="strips" would save \d+\.\d MB of'):
        large_vocabulary()


@pytest.mark.parametrize("value", ["all", 1, 0, True])
def test_other_words_for_logits_are_refused(value):
    with pytest.raises(stretto.UserError, match="it is 'stored', 'strips', or a number of strips"):
        large_vocabulary(logits=value)
