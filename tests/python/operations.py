"""What tests of operations share."""

import stretto
import torch


def numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + len(shape))).to(dtype)


def integers(low, high, *shape):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(3))


def compare(function, inputs, rtol):
    wanted = function(*inputs)
    results = stretto.compile(function, inputs)(*inputs)
    assert results.keys() == wanted.keys()
    wrong = []
    for name, value in wanted.items():
        try:
            torch.testing.assert_close(results[name], value, rtol=rtol, atol=rtol, equal_nan=True)
        except AssertionError as difference:
            wrong.append(f"{name}: {difference}")
    assert not wrong, "\n\n".join(wrong)
