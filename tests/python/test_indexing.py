"""Indexing, sorting and scattering, in their usual forms, against PyTorch.

Operations of one kind are one program with many results: one capture for all of them.
"""

import pytest
import torch
from operations import compare, integers, numbers
from torch.nn import functional as F

CUBE = numbers(2, 3, 4, 5)


def put(x, index, values):
    x = x.clone()
    x[index] = values
    return x


def indexing(t, i, z, row):
    """t [7, 5], i [2, 3] in [0, 7), z [2, 3, 4, 5], row [2, 3, 5]"""
    return {
        "embedding": F.embedding(i, t),
        "rows": t[i],
        "rows_from_the_end": t[i - 7],
        "separated": z[:, i[0] % 3, :, i[1] % 5],
        "adjacent": z[:, i[0] % 3, i[1] % 4],
        "broadcast": z[i[:, :1] % 2, i % 3],
        "index_select": z.index_select(2, i[0] % 4),
        "permuted": t.transpose(0, 1)[i[0] % 5],
        "put_row": put(z, (slice(None), slice(None), i[0, :1] % 4), row.unsqueeze(2)),
        "put_slice": put(z, (slice(None), slice(None), slice(1, 3)), row.unsqueeze(2)),
        "put_last": put(z, (slice(None), slice(None), -1), row),
        "index_copy": z.index_copy(2, i[0, :1] % 4, row.unsqueeze(2)),
    }


def orders(z, w, n):
    """z [2, 3, 4, 5], w [30] of few values, n [3, 4]"""
    value, at = z.max(1)
    low, low_at = z.min(-1, keepdim=True)
    ordered, order = torch.sort(w, stable=True)
    fallen, fall = torch.sort(z, dim=1, descending=True)
    top, top_at = torch.topk(z, 2, dim=-1)
    bottom, bottom_at = torch.topk(z, 3, dim=2, largest=False)
    return {
        "max": value,
        "max_at": at,
        "min": low,
        "min_at": low_at,
        "sort": ordered,
        "sort_at": order,
        "sort_down": fallen,
        "sort_down_at": fall,
        "argsort": torch.argsort(n, dim=0),
        "argsort_nan": torch.argsort(n.flatten().log(), stable=True),
        "topk": top,
        "topk_at": top_at,
        "topk_low": bottom,
        "topk_low_at": bottom_at,
        "cumsum": z.cumsum(2),
        "cumsum_whole": (w > 0).cumsum(0),
        "cumsum_int32": w.cumsum(0, dtype=torch.int32),
        "histc": torch.histc(n, bins=4, min=-1, max=1),
        "histc_whole": torch.histc(w.float(), bins=4, min=-2, max=1),
    }


def long_orders(whole, w, grid):
    """whole [4097] from all of int64, w [2048] of few values, grid [2, 2100]"""
    scores = torch.cat((w, -w, torch.full((3,), float("nan"))))
    ordered, order = torch.sort(whole, stable=True)
    fallen, fall = torch.sort(whole, stable=True, descending=True)
    top, top_at = torch.topk(grid, 5)
    return {
        "int64": ordered,
        "int64_at": order,
        "int64_down": fallen,
        "int64_down_at": fall,
        "not_a_number_at": torch.argsort(scores, stable=True),
        "not_a_number_down_at": torch.argsort(scores, stable=True, descending=True),
        "columns_at": torch.argsort(grid.t(), dim=0, stable=True),
        "inverse": torch.argsort(torch.argsort(scores, stable=True)),
        "topk": top,
        "topk_at": top_at,
    }


def put_sum(x, index, values):
    return torch.ops.aten.index_put(x, index, values, True)


def scattered(t, i, z, rows):
    """t [7, 5], i [2, 3] in [0, 7), z [2, 3, 4, 5], rows [2, 3, 5]"""
    own = i[:, :, None, None].expand(2, 3, 2, 5) % 4
    return {
        "gather": z.gather(2, own),
        "gather_less": t.gather(-1, i % 5),
        "scatter": t.scatter(1, i % 5 * 0 + torch.arange(3), rows[..., 0]),
        "scatter_value": t.scatter(0, i[:, :1], 3.5),
        "scatter_add": z.scatter_add(2, own, z[:, :, :2]),
        "scatter_column": t.scatter(1, torch.cat((i[0], i[1], i[0, :1]))[:, None] % 5, 2.5),
        "put_sum": put_sum(t, (i,), rows),
        "put_sum_of_many": put_sum(t.repeat(5, 1), (i,), rows),
        "put_sum_of_few": put_sum(t[:3], (i % 3,), rows),
        "put_sum_from_the_end": put_sum(t, (i - 7,), rows),
        "put_sum_one": put_sum(t, (i[0], i[1] % 5), rows[0, :, 0]),
        "put_sum_inner": put_sum(z, (i[0] % 2, i[1] % 3), rows[0, :, None]),
        "put_sum_apart": put_sum(z, (i[0] % 2, None, i[1] % 4), rows[0, :, None]),
        "index_add": z.index_add(2, i[0] % 4, rows[:, :, None].expand(2, 3, 3, 5), alpha=0.5),
    }


def many_sums(x, rows, places, grid):
    """x [50, 96], rows [300, 96], places [300] in [0, 50), grid [2, 700] in [0, 7): many pairs"""
    far = places.reshape(3, 100) - 50
    return {
        "rows": put_sum(x, (places,), rows),
        "rows_of_two": put_sum(x, (far,), rows.reshape(3, 100, 96)),
        "elements": put_sum(x[:14, :70], (grid[0] * 2, grid[1] * 10), rows.reshape(-1)[:700]),
        "columns": x.index_add(1, places, rows.t()[:50]),
        "outer": rows.sum(0),
        "outer_mean": rows.reshape(3, 100, 96).mean(1),
    }


PROGRAMS = {
    "orders": (orders, (CUBE, integers(-2, 3, 30), numbers(3, 4))),
    "long_orders": (
        long_orders,
        (
            torch.cat((integers(-(2**63), 2**63 - 1, 4000), torch.tensor([-(2**63), 2**63 - 1]).repeat(49)))[
                :4097
            ],
            integers(-3, 3, 2048) * 0.5,
            numbers(2, 2100),
        ),
    ),
    "scattered": (scattered, (numbers(7, 5), integers(0, 7, 2, 3), CUBE, numbers(2, 3, 5))),
    "many_sums": (
        many_sums,
        (numbers(50, 96), numbers(300, 96), integers(0, 50, 300), integers(0, 7, 2, 700)),
    ),
    "indexing": (indexing, (numbers(7, 5), integers(0, 7, 2, 3), CUBE, numbers(2, 3, 5))),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_agrees_with_pytorch(program):
    function, inputs = PROGRAMS[program]
    compare(function, inputs, rtol=1e-5)
