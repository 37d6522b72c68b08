import warnings

import pytest
import stretto  # noqa: F401  registers the backend
import torch
from models import random_tokens, small_model
from transformers import StaticCache

STRICT = {"fallback": "error"}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", module="torch")
        yield


def compiled(model, options=STRICT):
    return torch.compile(model, backend="stretto", options=options, dynamic=False)


def test_the_backend_is_registered():
    assert "stretto" in torch.compiler.list_backends()


def test_a_model_runs_through_the_backend():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-5)


def test_buffers_are_updated():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.randn(3))

        def forward(self, x):
            self.total.add_(x)
            return self.total + 1

    model, x = Counter(), torch.randn(3)
    before = model.total.clone()
    run = compiled(model)
    with torch.no_grad():
        run(x)
        result = run(x)
    torch.testing.assert_close(model.total, before + x + x)
    torch.testing.assert_close(result, before + x + x + 1)


def test_a_parameter_that_moves_is_followed():
    layer = torch.nn.Linear(4, 2)
    run, x = compiled(layer), torch.randn(1, 4)
    with torch.no_grad():
        run(x)
        layer.weight.data = torch.randn(2, 4)
        torch.testing.assert_close(run(x), layer(x), rtol=1e-4, atol=1e-5)


def test_a_graph_that_cannot_be_compiled_falls_back_with_a_warning():
    x = torch.rand(3, 3)
    run = compiled(torch.special.i0, options=None)
    with torch.no_grad(), pytest.warns(UserWarning, match="stretto falls back to PyTorch for one graph"):
        torch.testing.assert_close(run(x), torch.special.i0(x))


def test_a_graph_that_cannot_be_compiled_raises_where_asked():
    with torch.no_grad(), pytest.raises(Exception, match="i0"):
        compiled(torch.special.i0)(torch.rand(3, 3))


def test_training_graphs_are_refused():
    with pytest.raises(Exception, match="the graph needs gradients"):
        compiled(torch.nn.Linear(4, 2))(torch.randn(1, 4))


def test_an_unknown_option_is_refused():
    with torch.no_grad(), pytest.raises(Exception, match="unknown option 'speed'"):
        compiled(lambda x: x + 1, options={"speed": 3})(torch.randn(3))


def test_a_language_model_with_a_static_cache():
    model = small_model("llama", dtype=torch.float32)
    tokens = random_tokens(1, 6)
    with torch.no_grad():
        expected = model(input_ids=tokens).logits
        run = compiled(model)
        cache = StaticCache(config=model.config, max_cache_len=16)
        cache.early_initialization(1, 2, 16, torch.float32, torch.device("cpu"))
        rows = [
            run(input_ids=tokens[:, at : at + 1], past_key_values=cache, use_cache=True).logits[:, 0]
            for at in range(tokens.shape[1])
        ]
    torch.testing.assert_close(torch.stack(rows, dim=1), expected, rtol=1e-4, atol=1e-4)
