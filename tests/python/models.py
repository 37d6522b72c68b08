"""Small random models that the tests decode with."""

import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config

FAMILIES = ("llama", "qwen2", "qwen3", "gpt2")


def small_model(
    family, *, heads=4, key_heads=2, head_dim=16, layers=2, vocabulary=97, seed=0, dtype=torch.bfloat16
):
    """A random two-layer model in which no parameter is zero."""
    hidden = heads * head_dim
    if family == "gpt2":
        config = GPT2Config(
            vocab_size=vocabulary, n_embd=hidden, n_layer=layers, n_head=heads, n_positions=128,
            bos_token_id=None, eos_token_id=None,
        )  # fmt: skip
    else:
        kinds = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
        config = kinds[family](
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=key_heads, head_dim=head_dim, intermediate_size=3 * hidden // 2,
            max_position_embeddings=128, bos_token_id=None, eos_token_id=None,
        )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    randomize(model, seed)
    return model


def randomize(model, seed):
    """Fills every parameter: matrices keep their input's scale, gains are near one, biases near zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                gain = name.endswith("weight")
                parameter.copy_(0.1 * noise + gain)
            else:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)


def random_tokens(batch, length, vocabulary=97, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (batch, length), generator=generator)
