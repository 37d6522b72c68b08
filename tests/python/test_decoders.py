import pytest
import stretto
import torch
from models import FAMILIES, random_tokens, small_model
from stretto.checks import decode_accuracy

LENGTH = 24


def checked(model, tokens, **options):
    step = stretto.compile(model, batch_size=tokens.shape[0], max_cache_len=32, **options)
    accuracy = decode_accuracy(model, step, tokens)
    assert accuracy.positions == tokens.numel()
    assert accuracy.eager_error > 0
    return accuracy


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_as_exact_as_eager(family, batch):
    accuracy = checked(small_model(family), random_tokens(batch, LENGTH))
    assert not accuracy.faults()
    assert accuracy.clear_tokens > 0


@pytest.mark.parametrize("head_dim", [16, 32, 64])
@pytest.mark.parametrize(("heads", "key_heads"), [(4, 4), (4, 1), (9, 3)])
def test_grouped_heads_of_any_size(heads, key_heads, head_dim):
    model = small_model("llama", heads=heads, key_heads=key_heads, head_dim=head_dim, seed=3)
    assert not checked(model, random_tokens(2, LENGTH, seed=4)).faults()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_for_the_gpu_gives_the_same_numbers_on_threads(family):
    assert not checked(small_model(family), random_tokens(1, 12), machine="h200", backend="cpu").faults()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_backend_agrees_with_the_threads_bit_for_bit(family):
    model, tokens = small_model(family), random_tokens(1, 4)
    logits = []
    for backend in ("cpu", "reference"):
        step = stretto.compile(model, batch_size=1, max_cache_len=32, machine="h200", backend=backend)
        logits.append(stretto.checks.decode_logits(step, tokens))
    assert torch.equal(*logits)


def test_float32_models_are_exact_to_float32():
    model = small_model("llama", dtype=torch.float32)
    tokens = random_tokens(2, LENGTH)
    step = stretto.compile(model, batch_size=2, max_cache_len=32)
    reference = stretto.checks.float64_logits(model, tokens)
    torch.testing.assert_close(
        stretto.checks.decode_logits(step, tokens).double(), reference, rtol=1e-4, atol=1e-4
    )


def test_exact_numerics_stay_within_eagers_error():
    assert not checked(small_model("llama"), random_tokens(1, LENGTH), numerics="exact").faults()


def test_the_last_cache_row_can_be_used():
    model, tokens = small_model("llama"), random_tokens(1, 32)
    assert not checked(model, tokens).faults()


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"max_cache_len": 0}, {"max_cache_len": -1}])
def test_a_decode_step_has_at_least_one_row_of_everything(wrong):
    (name,) = wrong
    for compile in (stretto.compile, stretto.compile_generator):
        with pytest.raises(stretto.UserError, match=f"{name} is {wrong[name]}, it must be at least 1"):
            compile(small_model("llama"), **wrong)
