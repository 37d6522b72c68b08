import types
import warnings

import pytest
import stretto
import torch


@pytest.fixture(scope="module")
def step():
    return stretto.compile(lambda signal, gain: signal * gain, (torch.randn(2, 3), torch.randn(3)))


def test_a_wrong_shape_names_the_input_and_both_shapes(step):
    with pytest.raises(stretto.UserError) as error:
        step(torch.randn(2, 4), torch.randn(3))
    assert str(error.value) == (
        "input 'signal' has shape (2, 4), the step was compiled for (2, 3)\n"
        "  compile again with example inputs of this shape"
    )


def test_a_wrong_dtype_is_a_type_error(step):
    with pytest.raises(stretto.InputTypeError) as error:
        step(torch.randn(2, 3).double(), torch.randn(3))
    assert str(error.value) == (
        "input 'signal' is torch.float64, the step was compiled for torch.float32\n"
        "  pass signal.to(torch.float32), or compile again"
    )
    assert isinstance(error.value, TypeError)


def test_a_wrong_device_names_both(step):
    with pytest.raises(stretto.InputTypeError, match=r"input 'signal' is on meta, the step runs on cpu"):
        step(torch.empty(2, 3, device="meta"), torch.randn(3))


def test_a_missing_argument_shows_what_is_expected(step):
    with pytest.raises(stretto.UserError) as error:
        step(torch.randn(2, 3))
    assert "given     (*)" in str(error.value)
    assert "expected  (*, *)" in str(error.value)


def test_a_number_is_no_tensor(step):
    with pytest.raises(stretto.InputTypeError, match="input 'gain' is a float, it must be a tensor"):
        step(torch.randn(2, 3), 2.0)


def test_another_constant_needs_another_program():
    step = stretto.compile(lambda x, k: x * k, (torch.randn(3), 2))
    with pytest.raises(stretto.UserError, match="a constant argument is 3, but the step was compiled for 2"):
        step(torch.randn(3), 3)


def test_all_unsupported_operations_are_listed_at_once():
    def unusual(x):
        return torch.special.i0(x) + torch.special.i0(x * 2) + torch.linalg.det(x)

    with pytest.raises(stretto.UserError) as error:
        stretto.compile(unusual, torch.randn(3, 3))
    assert "aten.i0" in str(error.value) or "special_i0" in str(error.value)
    assert "linalg_det" in str(error.value)


def test_an_unknown_machine_is_refused():
    with pytest.raises(stretto.UserError, match="h201"):
        stretto.compile(lambda x: x + 1, torch.randn(3), machine="h201")


def test_an_unknown_numerics_is_refused():
    with pytest.raises(stretto.UserError, match="unknown numerics 'fast'; known: fused, exact"):
        stretto.compile(lambda x: x + 1, torch.randn(3), numerics="fast")


def test_the_cuda_backend_needs_tensors_on_the_gpu():
    with pytest.raises(stretto.UserError, match="backend 'cuda' cannot run tensors on cpu"):
        stretto.compile(lambda x: x + 1, torch.randn(3), backend="cuda")


def test_a_type_that_stretto_lacks_is_named():
    model = torch.nn.Module()
    model.register_buffer("phase", torch.randn(3, dtype=torch.complex64))
    model.forward = lambda x: (x * model.phase).real
    with pytest.raises(
        stretto.InputTypeError, match=r"tensor 'phase' is torch.complex64, which stretto does not have"
    ):
        stretto.compile(model, torch.randn(3))


def test_a_package_that_is_not_there_is_named(tmp_path):
    with pytest.raises(stretto.UserError, match=r"missing\.stretto"):
        stretto.load(tmp_path / "missing.stretto")


def test_errors_are_ordinary_python_errors():
    assert issubclass(stretto.UserError, ValueError)
    assert issubclass(stretto.InputTypeError, TypeError)
    assert issubclass(stretto.RunError, RuntimeError)
    assert all(
        issubclass(kind, stretto.Error)
        for kind in (stretto.UserError, stretto.InputTypeError, stretto.InternalError, stretto.RunError)
    )


def test_what_makes_a_kernel_slow_is_a_warning_and_part_of_the_explanation(monkeypatch):
    step = stretto.compile(lambda x: x * 2, torch.randn(4))
    slow = types.SimpleNamespace(warnings=["products of this program run slower"])
    monkeypatch.setattr(stretto._core, "compile_kernel", lambda *_: slow)
    assert "warning" not in step.explain()
    with pytest.warns(UserWarning, match="products of this program run slower"):
        assert step.kernel("sm_90a") is slow
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step.kernel("sm_90a")  # once is enough
    assert step.explain().endswith("\nwarning: products of this program run slower\n")
