#include <fmt/format.h>

#include <utility>

#include "graph/builder.h"
#include "graph/promote.h"

namespace stretto {
namespace {

using Nodes = std::vector<std::int32_t>;
using Digits = std::vector<Atom>;

/// The digits of several dimensions, as one.
Digits joined(Digits outer, const Digits& inner) {
    outer.insert(outer.end(), inner.begin(), inner.end());
    return outer;
}

}  // namespace

Tensor GraphBuilder::grouped_matmul(const Tensor& a, const Tensor& b, const Tensor& ends, DType result) {
    if (a.dtype != b.dtype || !is_float(a.dtype)) {
        fail(fmt::format("cannot multiply matrices of {} and {}", name(a.dtype), name(b.dtype)));
    }
    const bool of_columns = a.rank() == 3 && b.rank() == 2;
    const Tensor left = of_columns ? transpose(b, 0, 1) : a;
    const Tensor right = of_columns ? transpose(a, 1, 2) : b;
    const bool ranks = left.rank() == 2 && (right.rank() == 2 || right.rank() == 3) && ends.rank() == 1;
    const bool fit = ranks && left.shape()[1] == right.shape()[right.rank() - 2] &&
                     (right.rank() == 2 || right.shape()[0] == ends.shape()[0]);
    if (!fit) {
        fail(fmt::format("cannot multiply groups of shapes {} and {} with {} ends", to_text(a.shape()),
                         to_text(b.shape()), to_text(ends.shape())));
    }
    if (right.rank() == 2) return grouped_inner(left, right, ends, result);
    const Tensor product = grouped_rows(left, right, ends, result);
    return of_columns ? transpose(product, 0, 1) : product;
}

Tensor GraphBuilder::grouped_rows(const Tensor& a, const Tensor& b, const Tensor& ends, DType result) {
    const std::int64_t rows = a.shape()[0], depth = a.shape()[1];
    const std::int64_t groups = b.shape()[0], columns = b.shape()[2];
    // A row's group is the number of groups that end before it.
    const Tensor ended =
        pointwise({expand(unsqueeze(ends, 0), {rows, -1})}, DType::I64, [](Expr& e, const Nodes& n) {
            const std::int32_t passed = e.apply(Op::Le, {e.cast(n[0], DType::I64), e.index(0)});
            return e.apply(Op::Select, {passed, e.constant(1, DType::I64), e.constant(0, DType::I64)});
        });
    const Tensor group = reduce(ReduceOp::Sum, ended, {1}, false, DType::I64);
    const auto bound = [&](std::int64_t after) {
        return pointwise({group}, DType::I64, [&](Expr& e, const Nodes& n) {
            const auto number = [&](std::int64_t x) {
                return e.constant(static_cast<double>(x), DType::I64);
            };
            const std::int32_t at =
                e.apply(Op::Mul, {e.apply(Op::Add, {n[0], number(after)}), number(depth)});
            return e.apply(Op::Min, {at, number(groups * depth)});
        });
    };
    const auto by_row = [&](const Tensor& x) {
        Access bound_access = access(x);
        bound_access.map.dims = {{atom(1, 0)}, x.map.dims[0], {atom(columns, 0)}, {atom(groups * depth, 0)}};
        return bound_access;
    };
    Contract node;
    node.space = {1, rows, columns, groups * depth};
    node.a = access(a);
    node.a.map.dims = {
        {atom(1, 0)}, a.map.dims[0], {atom(columns, 0)}, joined({atom(groups, 0)}, a.map.dims[1])};
    node.b = access(b);
    node.b.map.dims = {{atom(1, 0)}, {atom(rows, 0)}, b.map.dims[2], joined(b.map.dims[0], b.map.dims[1])};
    node.ragged = Ragged{by_row(bound(0)), by_row(bound(1)), depth};
    return add({{result, {rows, columns}}, std::move(node), {}});
}

Tensor GraphBuilder::grouped_inner(const Tensor& a, const Tensor& b, const Tensor& ends, DType result) {
    const std::int64_t rows = a.shape()[0], depth = a.shape()[1];
    const std::int64_t groups = ends.shape()[0], columns = b.shape()[1];
    const Tensor wide = cast(ends, DType::I64);
    const Tensor begins = concat({full({1}, 0, DType::I64), slice(wide, 0, 0, groups - 1)}, 0);
    const auto by_group = [&](const Tensor& x) {
        Access bound_access = access(x);
        bound_access.map.dims = {x.map.dims[0], {atom(rows, 0)}, {atom(columns, 0)}, {atom(depth, 0)}};
        return bound_access;
    };
    Contract node;
    node.space = {groups, rows, columns, depth};
    node.a = access(a);
    node.a.map.dims = {{atom(groups, 0)}, a.map.dims[0], {atom(columns, 0)}, a.map.dims[1]};
    node.b = access(b);
    node.b.map.dims = {{atom(groups, 0)}, {atom(rows, 0)}, b.map.dims[1], b.map.dims[0]};
    node.ragged = Ragged{by_group(begins), by_group(wide), depth / groups};
    return add({{result, {groups, rows, columns}}, std::move(node), {}});
}

}  // namespace stretto
