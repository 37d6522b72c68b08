"""Operations that the importer lowers, in their usual forms, against PyTorch; see test_indexing.py for more.

Operations of one kind are one program with many results: one capture for all of them.
"""

import pytest
import torch
from operations import compare, integers, numbers
from torch.nn import functional as F

BF16 = torch.bfloat16


X, Y = numbers(3, 4), numbers(3, 4, seed=1)
POSITIVE = X.abs() + 0.1
WHOLE = integers(-9, 9, 3, 4)
TRUTH = Y > 0
CUBE = numbers(2, 3, 4, 5)


def functions(x, p):
    return {
        "neg": -x,
        "abs": x.abs(),
        "exp": x.exp(),
        "exp2": x.exp2(),
        "log": p.log(),
        "log2": p.log2(),
        "log1p": p.log1p(),
        "sqrt": p.sqrt(),
        "rsqrt": p.rsqrt(),
        "reciprocal": p.reciprocal(),
        "sin": x.sin(),
        "cos": x.cos(),
        "tanh": x.tanh(),
        "erf": x.erf(),
        "sigmoid": x.sigmoid(),
        "floor": x.floor(),
        "ceil": x.ceil(),
        "square": x.square(),
        "relu": x.relu(),
        "leaky_relu": F.leaky_relu(x, 0.2),
        "softplus": F.softplus(x),
        "silu": F.silu(x),
        "gelu": F.gelu(x),
        "gelu_tanh": F.gelu(x, approximate="tanh"),
        **{f"pow_{e}": p**e for e in (0, 1, 2, 3, 0.5, -0.5, -1, 2.5)},
        "base_pow": torch.pow(2.0, x),
        "tril": x.tril(-1),
        "triu": x.triu(1),
        "sign": x.sign(),
        "isnan": x.log().isnan(),
    }


def arithmetic(x, y, c):
    return {
        "add": x + y,
        "add_alpha": torch.add(x, y, alpha=0.3),
        "silu_backward": torch.ops.aten.silu_backward(y, x),
        "sub": x - y,
        "rsub": 1.7 - x,
        "mul": x * y,
        "mul_number": x * 0.1,
        "div": x / y,
        "floor_div": x // 0.3,
        "trunc_div": torch.div(x, y, rounding_mode="trunc"),
        "remainder": x % 0.3,
        "fmod": torch.fmod(x, 0.3),
        "pow": x.abs() ** y,
        "minimum": torch.minimum(x, y),
        "maximum": torch.maximum(x, y),
        "clamp": x.clamp(-0.5, 0.5),
        "clamp_min": x.clamp(min=0.1),
        "clamp_max": x.clamp(max=0.1),
        "where": torch.where(c, x, y),
        "where_number": torch.where(c, x, -float("inf")),
        "masked_fill": x.masked_fill(c, -1e4),
        "broadcast": x[:, :1] * y[0],
    }


def whole_numbers(i, x, c):
    return {
        "add": i + 3,
        "add_float": i + x,
        "mul_number": i * 0.5,
        "div": i / 7,
        "floor_div": i // 4,
        "floor_div_negative": i // -4,
        "remainder": i % 4,
        "remainder_negative": i % -4,
        "fmod": torch.fmod(i, 4),
        "pow": i**2,
        "clamp": i.clamp(-2, 3),
        "int32": i.to(torch.int32) + 3,
        "int32_int64": i.to(torch.int32) + i,
        "to_float": i.float(),
        "to_bool": i.to(torch.bool),
        "to_int": (x * 5).to(torch.int64),
        "to_uint8": i.abs().to(torch.uint8),
        "from_bool": c.float(),
    }


def comparisons(i, x, c):
    forms = {}
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        compare = getattr(torch, name)
        forms |= {
            name: compare(i, i.t().reshape(3, 4)),
            f"{name}_1": compare(i, 1),
            f"{name}_x": compare(x, 0.5),
        }
    return forms | {
        "logical_and": torch.logical_and(c, i),
        "logical_or": torch.logical_or(c, i),
        "logical_xor": torch.logical_xor(c, i),
        "logical_not": torch.logical_not(i),
        "not": ~c,
        "and": c & (x > 0),
        "or": c | (x > 0),
    }


def views(x, z):
    parts = (*z.split(3, -1), *z.chunk(2, 2), *z.unbind(1))
    return {
        "chain": z.permute(0, 2, 1, 3).reshape(2, 4, 15).transpose(1, 2)[:, 1:, ::2].unsqueeze(1).contiguous()
        * 2,
        "t": x.t() * 2,
        "flatten": z.flatten(1) * 2,
        "squeeze": x.unsqueeze(0).unsqueeze(-1).squeeze() * 2,
        "select": z[1, :, -1] * 2,
        "expand": x.unsqueeze(1).expand(-1, 6, -1) * 2,
        "cat": torch.cat([x, x * 2, x], 1),
        "stack": torch.stack([x, x * 2], 1),
        "rotate": torch.cat((-x[..., 2:], x[..., :2]), -1),
        "pad": torch.nn.functional.pad(z, (2, -1, 0, 3, 1, 0), value=-7.0),
        "roll": x.roll((1, -5), (0, 1)),
        "repeat": x.repeat(2, 1, 3),
        "repeat_interleave": x.repeat_interleave(2, dim=1),
        "itself": x,
        **{f"part_{n}": part * 2 for n, part in enumerate(parts)},
    }


def creation(x):
    return {
        "arange": torch.arange(4) + x,
        "arange_step": torch.arange(2, 11, 3) + x[:, 0],
        "arange_float": torch.arange(0.5, 2.2, 0.6) + x[:, 0],
        "full": torch.full((4,), 7) + x,
        "full_like": torch.full_like(x, 0.3),
        "zeros": torch.zeros(4) + torch.ones(4) + x,
        "new": x.new_zeros(2) + x.new_full((2,), 3.0),
        "constant": x + torch.tensor([1.0, 2.0, 3.0, 4.0]),
    }


def reductions(z):
    forms = {}
    for keep in (False, True):
        forms |= {
            f"mean_{keep}": z.mean((0, -1), keepdim=keep),
            f"sum_{keep}": z.sum(1, keepdim=keep),
            f"amax_{keep}": z.amax(2, keepdim=keep),
            f"argmax_{keep}": z.argmax(1, keepdim=keep),
            f"var_{keep}": z.var(-1, keepdim=keep),
            f"any_{keep}": (z > 1.5).any(-1, keepdim=keep),
            f"all_{keep}": (z > -1).all(-1, keepdim=keep),
        }
    return forms | {
        "mean": z.mean(),
        "sum": z.sum(),
        "amin": z.amin(),
        "max": z.max(),
        "argmax": z.argmax(),
        "sum_bool": (z > 0).sum(-1),
        "any": (z > 9).any(),
        "var_0": z.var(-1, correction=0),
        "softmax": z.softmax(1),
        "log_softmax": z.log_softmax(-1),
        "layer_norm": F.layer_norm(z, (4, 5)),
        "layer_norm_weight": F.layer_norm(z, (5,), z[0, 0, 0], z[0, 0, 1]),
        "rms_norm": F.rms_norm(z, (5,)),
        "rms_norm_weight": F.rms_norm(z, (5,), z[0, 0, 0], 1e-5),
    }


def products(a, b, c):
    """a [2, 1, 3, 5], b [4, 5, 2], c [2]"""
    return {
        "matmul": a @ b,
        "mm": a[0, 0] @ b[0],
        "bmm": torch.bmm(a[:, 0], b[:2]),
        "vector": b[0].t() @ a[0, 0, 0],
        "dot": a[0, 0, 0] @ a[1, 0, 0],
        "addmm": torch.addmm(c, a[0, 0], b[0], beta=0.5, alpha=2),
        "baddbmm": torch.baddbmm(c, a[:, 0], b[:2]),
        "linear": F.linear(a, b[0].t(), c),
        "outer": a[0, 0].unsqueeze(-1) @ a[0, 0, 0].unsqueeze(0),
        "einsum": torch.einsum("bij,bjk->bik", a[:, 0], b[:2]),
    }


def attention(q, k, v, mask, bias):
    """q [2, 4, 3, 8], k and v [2, 4, 6, 8]"""
    attend = F.scaled_dot_product_attention
    return {
        "plain": attend(q, k, v),
        "mask": attend(q, k, v, attn_mask=mask, scale=0.3),
        "bias": attend(q, k, v, attn_mask=bias),
        "causal": attend(q, k, v, is_causal=True),
        "grouped": attend(q, k[:, :2], v[:, :2], enable_gqa=True),
        "without_batch": attend(q[0], k[0], v[0]),
    }


def normalizations(z):
    out, mean, scale = torch.native_layer_norm(z, (4, 5), None, None, 1e-5)
    return {"out": out, "mean": mean, "scale": scale}


def grouped_products(x, w, y, ends):
    """x [12, 16], w [3, 16, 8], y [12, 8]; three groups of 5, 0 and 7 rows."""
    return {
        "rows": F.grouped_mm(x, w, offs=ends),
        "rows_of_the_first": F.grouped_mm(x, w, offs=torch.full_like(ends, 12)),
        "rows_of_the_last": F.grouped_mm(x, w, offs=ends // 12 * 12),
        "inner_of_the_last": F.grouped_mm(x.t(), y, offs=ends // 12 * 12),
        "inner": F.grouped_mm(x.t(), y, offs=ends),
        "columns": F.grouped_mm(w.transpose(1, 2), x.t(), offs=ends),
    }


PROGRAMS = {
    "functions": (functions, (X, POSITIVE)),
    "arithmetic": (arithmetic, (X, Y, TRUTH)),
    "whole_numbers": (whole_numbers, (WHOLE, X, TRUTH)),
    "comparisons": (comparisons, (WHOLE, X, TRUTH)),
    "views": (views, (X, CUBE)),
    "creation": (creation, (X,)),
    "reductions": (reductions, (CUBE,)),
    "products": (products, (numbers(2, 1, 3, 5), numbers(4, 5, 2), numbers(2))),
    "attention": (
        attention,
        (
            numbers(2, 4, 3, 8),
            numbers(2, 4, 6, 8, seed=1),
            numbers(2, 4, 6, 8, seed=2),
            numbers(2, 1, 3, 6) > -0.8,
            numbers(3, 6),
        ),
    ),
    "normalizations": (normalizations, (CUBE,)),
    "grouped_products": (
        grouped_products,
        (numbers(12, 16), numbers(3, 16, 8), numbers(12, 8), torch.tensor([5, 5, 12], dtype=torch.int32)),
    ),
}
ONLY_NARROW = "grouped_products"  # PyTorch captures it for bfloat16 alone
NARROW = ("arithmetic", "products", "attention", ONLY_NARROW)


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != ONLY_NARROW])
def test_agrees_with_pytorch(program):
    function, inputs = PROGRAMS[program]
    compare(function, inputs, rtol=1e-5)


@pytest.mark.parametrize("program", NARROW)
def test_agrees_with_pytorch_in_bfloat16(program):
    function, inputs = PROGRAMS[program]
    narrow = tuple(x.to(BF16) if x.is_floating_point() else x for x in inputs)
    compare(function, narrow, rtol=2**-6)
