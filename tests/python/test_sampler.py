"""The sampler means what transformers means, and compiles to itself."""

import random

import pytest
import stretto
import torch
from stretto.philox import philox, philox_2x32
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

OPTIONS = (
    {},
    {"temperature": 0.8},
    {"temperature": 1.3, "top_k": 7},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.5, "min_p": 0.05},
    {"repetition_penalty": 1.3},
    {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 1.2, "seed": 2**40},
)


def random_logits(rows, vocabulary, seed=0):
    return 3 * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))


def random_history(rows, vocabulary):
    return torch.rand(rows, vocabulary, generator=torch.Generator().manual_seed(1)) < 0.3


def warped(options, logits):
    """What transformers leaves of the logits."""
    logits = TemperatureLogitsWarper(options["temperature"])(None, logits)
    for name, warper in (
        ("top_k", TopKLogitsWarper),
        ("top_p", TopPLogitsWarper),
        ("min_p", MinPLogitsWarper),
    ):
        if name in options:
            logits = warper(options[name])(None, logits)
    return logits


@pytest.mark.parametrize("options", [o for o in OPTIONS if "temperature" in o and "seed" not in o])
@pytest.mark.parametrize("rows", [1, 5])
def test_only_tokens_that_transformers_keeps_are_drawn(options, rows):
    logits = 0.3 * random_logits(rows, 300)
    possible = torch.isfinite(warped(options, logits))
    # A row draws 50 times: the draws of equal rows are independent.
    drawn = stretto.Sampler(**options)(logits.repeat(50, 1), torch.tensor([4])).reshape(50, rows)
    assert possible.gather(1, drawn.T).all()
    assert len(drawn[:, 0].unique()) > 1


def test_tokens_are_drawn_as_often_as_their_probabilities_say():
    logits = random_logits(1, 12, seed=4)
    drawn = stretto.Sampler(temperature=1.2, seed=99)(logits.expand(8000, -1), torch.tensor([6]))
    share = drawn.bincount(minlength=12) / len(drawn)
    expected = (logits[0] / 1.2).softmax(dim=0)
    # Five standard deviations of a binomial share.
    assert ((share - expected).abs() < 5 * (expected * (1 - expected) / len(drawn)).sqrt() + 1e-4).all()


def test_the_penalty_is_that_of_transformers():
    logits, seen = random_logits(1, 50), random_history(1, 50)
    tokens = seen[0].nonzero().T
    expected = RepetitionPenaltyLogitsProcessor(1.7)(tokens, logits.clone()).argmax(dim=-1)
    assert stretto.Sampler(repetition_penalty=1.7)(logits, torch.tensor([0]), seen) == expected


def test_temperature_zero_takes_the_best():
    logits = random_logits(4, 100)
    sampler = stretto.Sampler(temperature=0, top_p=0.9)
    assert torch.equal(sampler(logits, torch.tensor([3])), logits.argmax(dim=-1))


def test_seed_position_and_row_decide_the_draw():
    logits = random_logits(1, 1000).expand(6, -1) * 0.01
    sampler = stretto.Sampler(temperature=1.0, seed=5)
    first = sampler(logits, torch.tensor([7]))
    assert len(first.unique()) > 1
    assert torch.equal(sampler(logits, torch.tensor([7])), first)
    assert not torch.equal(sampler(logits, torch.tensor([8])), first)
    sampler.set(seed=6)
    assert not torch.equal(sampler(logits, torch.tensor([7])), first)


def test_options_are_checked():
    with pytest.raises(stretto.UserError, match="give a temperature"):
        stretto.Sampler(top_k=3)
    with pytest.raises(stretto.UserError, match=r"top_p is 1\.5, it must be more than 0 and at most 1"):
        stretto.Sampler(temperature=1, top_p=1.5)
    with pytest.raises(stretto.UserError, match="made without 'min_p'; its options: temperature"):
        stretto.Sampler(temperature=1).set(min_p=0.1)


@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 97), (3, 1000)])
@pytest.mark.parametrize("options", OPTIONS)
def test_the_compiled_sampler_chooses_as_the_eager_one(options, rows, vocabulary):
    logits = random_logits(rows, vocabulary)
    sampler = stretto.Sampler(**options)
    inputs = {"logits": logits, "position": torch.tensor([0])}
    if sampler.looks_back:
        inputs["seen"] = random_history(rows, vocabulary)
    step = stretto.compile(sampler, inputs)
    for at in range(3):
        inputs |= {"logits": random_logits(rows, vocabulary, seed=at), "position": torch.tensor([at])}
        assert torch.equal(step(**inputs), sampler(**inputs))


@pytest.mark.parametrize("options", OPTIONS[:2])
def test_a_vocabulary_of_real_size_is_searched_whole(options):
    sampler = stretto.Sampler(**options)
    inputs = (random_logits(1, 49_152), torch.tensor([0]))
    step = stretto.compile(sampler, inputs)
    for at in range(3):
        inputs = (random_logits(1, 49_152, seed=at), torch.tensor([at]))
        assert torch.equal(step(*inputs), sampler(*inputs))


def test_values_change_without_compiling_again():
    sampler = stretto.Sampler(temperature=1.0, top_k=50)
    inputs = (random_logits(8, 500), torch.tensor([0]))
    step = stretto.compile(sampler, inputs)
    hot = step(*inputs)
    sampler.set(temperature=0.3, top_k=2)
    assert torch.equal(step(*inputs), sampler(*inputs))
    assert not torch.equal(step(*inputs), hot)


def reference_philox(counter, key):
    """Philox4x32-10 on Python's integers."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (q >> 32) ^ b ^ k0, q % 2**32, (p >> 32) ^ d ^ k1, p % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return a


def test_philox_gives_the_published_words():
    # From the known-answer tests of Random123.
    assert reference_philox((0, 0, 0, 0), (0, 0)) == 0x6627E8D5
    assert reference_philox((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2) == 0x408F276D
    generator = random.Random(3)
    for _ in range(50):
        a, b, c, k0, k1 = (generator.getrandbits(32) for _ in range(5))
        seed = k0 | (k1 >> 1) << 32
        words = philox(*(torch.tensor([word]) for word in (a, b, c)), torch.tensor([seed]))
        assert words.item() == reference_philox((a, b, c, 0), (k0, k1 >> 1))


PUBLISHED_2X32 = (
    (0x00000000, 0x00000000, 0x00000000, 0xFF1DAE59),
    (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x2C3F628B),
    (0x243F6A88, 0x85A308D3, 0x13198A2E, 0xDD7CE038),
)


def test_the_short_philox_gives_the_published_words():
    elements = torch.tensor([element for element, *_ in PUBLISHED_2X32])
    for place, (_, counter, key, word) in enumerate(PUBLISHED_2X32):
        words = philox_2x32(elements, torch.tensor(counter), torch.tensor(key))
        assert words[place].item() == word
