import pytest
import stretto
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F


def close_to_float64(function, *inputs, factor=1.5, machine=None):
    """The step is no further from float64 than eager is, up to `factor` and one rounding of the result."""
    step = stretto.compile(function, inputs, machine=machine)
    actual = step(*inputs)
    eager = function(*inputs)
    exact = function(*(x.double() if x.is_floating_point() else x for x in inputs))
    assert actual.dtype == eager.dtype
    assert actual.shape == eager.shape
    step_error = (actual.double() - exact).abs().max()
    eager_error = (eager.double() - exact).abs().max()
    rounding = torch.finfo(eager.dtype).eps * exact.abs().max()
    assert step_error <= factor * eager_error + rounding


def mlp(inputs, hidden, outputs, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, outputs)
    ).to(dtype).requires_grad_(False)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_mlp(dtype):
    model = mlp(24, 40, 7, dtype)
    step = stretto.compile(model, torch.randn(3, 24, dtype=dtype))
    x = torch.randn(3, 24, dtype=dtype)
    tolerance = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 4 * torch.finfo(dtype).eps}
    exact = torch.nn.Sequential(*model).double()(x.double())
    torch.testing.assert_close(step(x).double(), exact, **tolerance)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=st.integers(1, 9), inputs=st.integers(1, 70), outputs=st.integers(1, 70), bias=st.booleans())
def test_linear_of_any_shape(rows, inputs, outputs, bias):
    torch.manual_seed(rows * 10000 + inputs * 100 + outputs)
    layer = torch.nn.Linear(inputs, outputs, bias=bias).bfloat16().requires_grad_(False)
    x = torch.randn(rows, inputs).bfloat16()
    actual = stretto.compile(layer, x)(x)
    exact = torch.nn.functional.linear(
        x.double(), layer.weight.double(), layer.bias.double() if bias else None
    )
    torch.testing.assert_close(actual.double(), exact, rtol=2**-7, atol=2**-7)


def cut_off(x, w):
    """Left sides that are computed while a product over them runs, by place and by batch."""
    kept = torch.arange(x.shape[-1]) <= 9000 + 900 * torch.arange(x.shape[0])[:, None, None]
    return torch.matmul(torch.where(kept, x, 0), w)


@pytest.mark.parametrize(("batch", "dtype"), [(1, torch.bfloat16), (3, torch.float32)])
def test_products_over_long_rows(batch, dtype):
    torch.manual_seed(0)
    k, n = 16384 + 65, 64
    x, w = torch.randn(batch, 1, k, dtype=dtype), torch.randn(batch, k, n, dtype=dtype)
    close_to_float64(cut_off, x, w, machine="h200")


POINTWISE = {
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
    "sin": torch.sin,
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.1),
    "power": lambda x: (x.abs() + 0.1) ** 1.7,
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "where": lambda x: torch.where(x > 0, x * 2, x - 1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name, dtype):
    torch.manual_seed(1)
    close_to_float64(POINTWISE[name], torch.randn(5, 37).to(dtype))


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum_rows": lambda x: x.sum(-1),
    "mean_columns": lambda x: x.mean(0, keepdim=True),
    "amax": lambda x: x.amax(1),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (x.shape[-1],)),
    "rms_norm": lambda x: torch.nn.functional.rms_norm(x, (x.shape[-1],), eps=1e-6),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    torch.manual_seed(2)
    close_to_float64(REDUCTIONS[name], torch.randn(6, 41), factor=4)


VIEWS = {
    "transpose": lambda x: x.t() * 2,
    "reshape": lambda x: x.t().reshape(2, -1) + 1,
    "slices": lambda x: x[1:, ::3] - 1,
    "concatenation": lambda x: torch.cat([x, x.neg(), x[:1]], 0),
    "stack": lambda x: torch.stack([x, x * 2], 1),
    "expand": lambda x: x[:, None].expand(-1, 3, -1) * torch.arange(3.0).view(3, 1),
    "gather": lambda x: x[torch.tensor([3, 0, -1])],
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    x = torch.randn(4, 12)
    actual = stretto.compile(VIEWS[name], x)(x)
    torch.testing.assert_close(actual, VIEWS[name](x), rtol=0, atol=0)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(batch=st.integers(1, 3), m=st.integers(1, 9), k=st.integers(1, 33), n=st.integers(1, 17))
def test_matmul_of_two_inputs(batch, m, k, n):
    torch.manual_seed(batch + 10 * m + 100 * k + 10000 * n)
    a, b = torch.randn(batch, m, k), torch.randn(batch, k, n)
    actual = stretto.compile(torch.matmul, (a, b))(a, b)
    torch.testing.assert_close(actual, (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-5)


def test_attention_with_a_causal_mask():
    torch.manual_seed(3)
    q, k, v = torch.randn(2, 4, 5, 16), torch.randn(2, 4, 5, 16), torch.randn(2, 4, 5, 16)

    def attend(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    actual = stretto.compile(attend, (q, k, v))(q, k, v)
    torch.testing.assert_close(actual, attend(q, k, v), rtol=1e-4, atol=1e-5)


def test_results_keep_their_structure():
    def results(x, y):
        return {"sum": x + y, "rest": [x.mean(), 3, None]}

    x, y = torch.randn(4), torch.randn(4)
    actual = stretto.compile(results, (x, y))(x, y)
    torch.testing.assert_close(actual["sum"], x + y)
    assert actual["rest"][1:] == [3, None]


def test_keyword_arguments_come_in_any_order():
    step = stretto.compile(lambda a, b: a - b, {"a": torch.randn(3), "b": torch.randn(3)})
    a, b = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(step(b=b, a=a), a - b)


def test_strided_inputs_are_read_as_what_they_show():
    x = torch.randn(6, 4)
    step = stretto.compile(lambda x: x * 2, torch.randn(4, 6))
    torch.testing.assert_close(step(x.t()), x.t() * 2)


def test_every_call_returns_a_new_tensor():
    step = stretto.compile(lambda x: x + 1, torch.randn(3))
    first = step(torch.zeros(3))
    step(torch.ones(3))
    assert first.tolist() == [1, 1, 1]


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.randn(4))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


def test_state_is_updated_in_the_models_own_buffer():
    model = Counter()
    before = model.total.clone()
    step = stretto.compile(model, torch.zeros(4))
    x = torch.randn(4)
    torch.testing.assert_close(step(x), (before + x) * 2)
    torch.testing.assert_close(model.total, before + x)
    step(x)
    torch.testing.assert_close(model.total, before + x + x)
    assert step.state["total"].data_ptr() == model.total.data_ptr()


def test_inputs_that_the_function_changes_are_changed():
    def accumulate(total, x):
        total.add_(x)
        return total.sum()

    step = stretto.compile(accumulate, (torch.zeros(5), torch.zeros(5)))
    for _ in range(2):
        total, x = torch.randn(5), torch.randn(5)
        expected = total + x
        torch.testing.assert_close(step(total, x), expected.sum())
        torch.testing.assert_close(total, expected)


def test_new_values_of_a_parameter_are_seen():
    layer = torch.nn.Linear(3, 2).requires_grad_(False)
    x = torch.randn(1, 3)
    step = stretto.compile(layer, x)
    layer.weight.copy_(torch.randn(2, 3))
    torch.testing.assert_close(step(x), layer(x))


def test_packed_weights_follow_changes_of_parameters(monkeypatch):
    layer = torch.nn.Linear(3, 2).requires_grad_(False)
    x = torch.randn(1, 3)
    step = stretto.compile(layer, x, packed_weights=True)
    refreshed = []
    monkeypatch.setattr(step, "_packs_weights", True)  # as it is on the GPU
    monkeypatch.setattr(step, "refresh_weights", lambda: refreshed.append(True))
    step(x)
    refreshed.clear()
    step(x)
    assert not refreshed
    layer.weight.copy_(torch.randn(2, 3))
    step(x)
    assert len(refreshed) == 1
    step(x)
    assert len(refreshed) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_packed_weights_give_the_same_bits():
    layers = torch.nn.Sequential(torch.nn.Linear(2048, 520), torch.nn.GELU(), torch.nn.Linear(520, 96))
    layers = layers.to("cuda", torch.bfloat16).requires_grad_(False)
    x = torch.randn(1, 2048, device="cuda", dtype=torch.bfloat16)
    in_place = stretto.compile(layers, x)
    packed = stretto.compile(layers, x, packed_weights=True)
    assert packed.statistics["packed_bytes"] > 0.8 * packed.statistics["streamed_bytes"]
    assert torch.equal(packed(x), in_place(x))
    layers[0].weight.copy_(torch.randn(520, 2048, device="cuda"))
    assert torch.equal(packed(x), in_place(x))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_view_that_starts_between_two_groups_of_neighbours_is_an_input_too():
    whole = torch.randn(65537, device="cuda")
    step = stretto.compile(lambda x: x * 2, (whole[1:],))
    assert torch.equal(step(whole[1:]), whole[1:] * 2)


def index_add(x, places, rows):
    return x.index_add(0, places, rows)


NO_ROWS = torch.zeros(0, dtype=torch.long)
OF_NOTHING = {
    "element by element": (lambda x: x * 2 + 1, (torch.randn(0, 32),)),
    "sum of no rows": (lambda x: x.sum(0), (torch.randn(0, 32),)),
    "mean of nothing": (lambda x: x.mean(), (torch.randn(0, 32),)),
    "norm": (lambda x: F.layer_norm(x.softmax(1), (32,)), (torch.randn(0, 32),)),
    "product of no rows": (lambda x, w: F.linear(x, w), (torch.randn(2, 0, 32), torch.randn(8, 32))),
    "product of no terms": (lambda x, y: x @ y, (torch.randn(2, 3, 0), torch.randn(2, 0, 4))),
    "attention of no queries": (
        F.scaled_dot_product_attention,
        (torch.randn(1, 2, 0, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)),
    ),
    "attention to nothing": (
        F.scaled_dot_product_attention,
        (torch.randn(1, 2, 3, 8), torch.randn(1, 2, 0, 8), torch.randn(1, 2, 0, 8)),
    ),
    "joined": (lambda x, y: torch.cat([x, y]) + 1, (torch.randn(0, 4), torch.randn(3, 4))),
    "added nowhere": (index_add, (torch.randn(5, 4), NO_ROWS, torch.randn(0, 4))),
    "loss of no rows": (F.cross_entropy, (torch.randn(0, 7), NO_ROWS)),
}


@pytest.mark.parametrize("case", OF_NOTHING)
def test_tensors_without_elements_give_what_pytorch_gives(case):
    function, inputs = OF_NOTHING[case]
    found = stretto.compile(function, inputs)(*inputs)
    torch.testing.assert_close(found, function(*inputs), equal_nan=True)


def test_what_takes_an_element_of_none_is_refused():
    def cleared(x, at):
        return x.index_put((at,), torch.zeros(1, 4))

    with pytest.raises(stretto.UserError, match=r"shape \[0, 4\] has no elements to read or change"):
        stretto.compile(cleared, (torch.randn(0, 4), torch.tensor([0])))
