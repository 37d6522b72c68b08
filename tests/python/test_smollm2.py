import pytest
import smollm2
import stretto
import torch
from stretto.checks import decode_accuracy

PROMPTS = (
    "The capital of France is",
    "A fugue is a piece of music in which",
    "def fibonacci(n):",
    "Water boils at a temperature of",
    "Once upon a time, in a small village,",
)
NEW_TOKENS = 64


@pytest.fixture(scope="module")
def model_and_tokenizer():
    return smollm2.load()


@pytest.fixture(scope="module")
def step(model_and_tokenizer):
    return stretto.compile(model_and_tokenizer[0], batch_size=1, max_cache_len=128)


@pytest.fixture(scope="module")
def generator(model_and_tokenizer):
    return stretto.compile_generator(model_and_tokenizer[0], max_cache_len=128, eos_token_id=())


def test_what_another_process_finished_first_stays(tmp_path):
    for writer in ("first", "second"):
        (tmp_path / writer).mkdir()
        (tmp_path / writer / "weights").write_text(writer)
        smollm2.put_in_place(tmp_path / writer, tmp_path / "model")
    assert (tmp_path / "model" / "weights").read_text() == "first"


def test_a_folder_that_cannot_be_put_in_place_is_an_error(tmp_path):
    (tmp_path / "finished").mkdir()
    with pytest.raises(FileNotFoundError):
        smollm2.put_in_place(tmp_path / "finished", tmp_path / "missing" / "model")


@pytest.mark.slow
@pytest.mark.parametrize("prompt", PROMPTS)
def test_generated_text_is_as_exact_as_eagers(model_and_tokenizer, step, generator, prompt):
    model, tokenizer = model_and_tokenizer
    tokens = tokenizer(prompt, return_tensors="pt").input_ids
    generated = generator.generate(tokens, NEW_TOKENS)
    assert generated.shape == (1, NEW_TOKENS)
    accuracy = decode_accuracy(model, step, torch.cat([tokens, generated], dim=1))
    assert not accuracy.faults()
    assert accuracy.clear_tokens > accuracy.positions // 4


def test_the_plan_for_the_gpu_is_proven(model_and_tokenizer):
    step = stretto.compile(
        model_and_tokenizer[0], batch_size=1, max_cache_len=128, machine="h200", backend="cpu"
    )
    assert step.verify() == []
    assert step.statistics["streamed_bytes"] > 0.9 * step.statistics["parameter_bytes"] - 60e6
