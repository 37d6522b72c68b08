"""Generation inside the kernel: tokens, stopping and streaming."""

import pytest
import stretto
import torch
from models import random_tokens, small_model
from stretto.decoder import decode_module
from stretto.generator import GenerationStep
from transformers import LlamaConfig, LlamaForCausalLM

SAMPLED = {
    "temperature": 0.9,
    "top_k": 20,
    "top_p": 0.9,
    "min_p": 0.01,
    "repetition_penalty": 1.2,
    "seed": 11,
}


def generator_of(model, **options):
    return stretto.compile_generator(model, **{"max_cache_len": 32} | options)


def eager_tokens(model, prompt, count, sampler):
    """The same loop around the same sampler, with the model itself: logits of all tokens so far each time."""
    tokens = prompt
    seen = torch.zeros(prompt.shape[0], model.config.vocab_size, dtype=torch.bool)
    seen.scatter_(1, prompt, True)
    for position in range(prompt.shape[1] - 1, prompt.shape[1] - 1 + count):
        with torch.no_grad():
            logits = model(input_ids=tokens).logits[:, -1]
        chosen = sampler(logits, torch.tensor([position]), seen)[:, None]
        seen.scatter_(1, chosen, True)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens[:, prompt.shape[1] :]


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 3}, SAMPLED])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_float32_model_generates_what_eager_generates(options, batch):
    model = small_model("llama", dtype=torch.float32, seed=5)
    prompt = random_tokens(batch, 5)
    generator = generator_of(model, batch_size=batch, sampler=stretto.Sampler(**options))
    expected = eager_tokens(model, prompt, 10, stretto.Sampler(**options))
    assert torch.equal(generator.generate(prompt, 10), expected)


@pytest.mark.parametrize("tokens_per_launch", [1, 4, 100])
def test_the_number_of_tokens_in_a_launch_changes_nothing(tokens_per_launch):
    model, prompt = small_model("llama"), random_tokens(2, 4)
    one_launch = generator_of(model, batch_size=2).generate(prompt, 9)
    launches = generator_of(model, batch_size=2, tokens_per_launch=tokens_per_launch)
    assert torch.equal(launches.generate(prompt, 9), one_launch)


def test_all_backends_generate_the_same_tokens():
    model, prompt = small_model("qwen3"), random_tokens(1, 3)
    tokens = [
        generator_of(model, machine="h200", backend=backend).generate(prompt, 3)
        for backend in ("cpu", "reference")
    ]
    assert torch.equal(*tokens)


def test_a_second_generation_does_not_see_the_first():
    generator = generator_of(small_model("qwen3"), sampler=stretto.Sampler(repetition_penalty=1.5))
    prompt = random_tokens(1, 6)
    first = generator.generate(prompt, 8)
    generator.generate(random_tokens(1, 4, seed=9), 5)
    assert torch.equal(generator.generate(prompt, 8), first)


def test_generation_stops_when_the_row_has_ended():
    model, prompt = small_model("llama"), random_tokens(1, 3)
    free = generator_of(model).generate(prompt, 8)[0].tolist()
    stopped = generator_of(model, eos_token_id=[free[3], -1]).generate(prompt, 8)[0].tolist()
    assert stopped == free[: free.index(free[3]) + 1]


def test_a_row_that_has_ended_is_padded_until_all_have():
    model, prompt = small_model("llama"), random_tokens(2, 3)
    free = generator_of(model, batch_size=2).generate(prompt, 8)
    end = int(free[0, 2])
    padded = generator_of(model, batch_size=2, eos_token_id=end, pad_token_id=96).generate(prompt, 8)
    for row, tokens in enumerate(free.tolist()):
        kept = tokens[: tokens.index(end) + 1] if end in tokens else tokens
        expected = (kept + [96] * 8)[: padded.shape[1]]
        assert padded[row].tolist() == expected


def test_an_end_token_in_the_prompt_ends_nothing():
    model, prompt = small_model("llama"), random_tokens(1, 5)
    expected = generator_of(model).generate(prompt, 3)
    end = next(token for token in prompt[0].tolist() if token not in expected[0].tolist())
    assert torch.equal(generator_of(model, eos_token_id=end).generate(prompt, 3), expected)


def test_tokens_come_while_the_launch_runs():
    generator = generator_of(small_model("llama"))
    stream = generator.stream(random_tokens(1, 2), 30)
    first = next(stream)
    assert first.shape == (1,)
    assert len(list(stream)) == 29


def test_the_eager_step_does_what_the_compiled_one_does():
    model, prompt = small_model("llama", dtype=torch.float32), random_tokens(2, 4)
    sampler = stretto.Sampler(**SAMPLED)
    eager = GenerationStep(decode_module(model, 2, 32), sampler, 2, 32, 97, [], 0, torch.device("cpu"))
    eager.tokens.fill_(-1)
    eager.tokens[:, :4] = prompt
    with torch.no_grad():
        for _ in range(9):
            eager()
    generator = generator_of(model, batch_size=2, sampler=stretto.Sampler(**SAMPLED))
    assert torch.equal(generator.generate(prompt, 6), eager.tokens[:, 4:10])


@pytest.mark.parametrize("options", [{}, SAMPLED])
def test_the_kernel_for_the_gpu_builds_without_spills(options):
    sizes = {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    }
    config = LlamaConfig(vocab_size=4096, num_hidden_layers=1, max_position_embeddings=256, **sizes)
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    generator = generator_of(model, sampler=stretto.Sampler(**options), machine="h200", backend="cpu")
    try:
        kernel = generator.step.kernel(use_cache=False)
    except stretto.UserError as error:
        pytest.skip(str(error).splitlines()[0])
    assert kernel.spill_bytes == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("tokens_per_launch", [1, 5, None])
def test_the_gpu_generates_the_tokens_of_the_processor(tokens_per_launch):
    # In float32, noise that differs in the last bit does not change a token of this size of vocabulary.
    model, prompt = small_model("llama", dtype=torch.float32, seed=5), random_tokens(2, 5)
    expected = generator_of(model, batch_size=2, sampler=stretto.Sampler(**SAMPLED)).generate(prompt, 20)
    sampler = stretto.Sampler(**SAMPLED)
    generator = generator_of(model.cuda(), batch_size=2, sampler=sampler, tokens_per_launch=tokens_per_launch)
    for _ in range(3):
        assert torch.equal(generator.generate(prompt, 20), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_launch_on_the_gpu_ends_early():
    model, prompt = small_model("llama"), random_tokens(1, 3)
    free = generator_of(model.cuda()).generate(prompt, 20)[0].tolist()
    stopping = generator_of(model, eos_token_id=free[3])
    for _ in range(3):
        assert stopping.generate(prompt, 20)[0].tolist() == free[: free.index(free[3]) + 1]


def test_the_last_cache_row_can_be_used():
    generator = generator_of(small_model("llama"))
    assert generator.generate(random_tokens(1, 30), 3).shape == (1, 3)


def test_a_prompt_holds_rows_of_the_embedding():
    prompt = random_tokens(1, 4)
    prompt[0, 2] = 10**6
    with pytest.raises(IndexError, match="input 'input_ids' holds 1000000, the embedding that it indexes"):
        generator_of(small_model("llama")).generate(prompt, 4)


def test_a_prompt_must_fit_the_cache():
    generator = generator_of(small_model("llama"), max_cache_len=16)
    with pytest.raises(
        stretto.UserError, match="12 prompt tokens and 6 new ones need 17 cache rows, the generator has 16"
    ):
        next(generator.stream(random_tokens(1, 12), 6))
