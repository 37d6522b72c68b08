#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/builder.h"
#include "graph/promote.h"

namespace stretto {
namespace {

using Nodes = std::vector<std::int32_t>;

std::int32_t integer(Expr& e, std::int64_t value) { return e.add({Op::Const, DType::I64, {}, value, 0}); }

}  // namespace

Tensor GraphBuilder::scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& values) {
    const std::size_t d = dim_of(x, dim);
    const Shape shape = x.shape();
    Shape rows = shape;
    if (index.rank() == x.rank()) rows[d] = index.shape()[d];
    if (index.shape() != rows || rows[d] > kLongestScatterChain) {
        fail(fmt::format(
            "scatter of an index of shape {} into {} along {} is not supported: at most {} positions "
            "of whole rows are",
            to_text(index.shape()), to_text(shape), dim, kLongestScatterChain));
    }
    const Tensor source = broadcast(values, rows);
    Tensor result = x;
    for (std::int64_t k = 0; k < rows[d]; ++k) {
        const auto column = [&](const Tensor& t) { return slice(t, static_cast<int>(d), k, k + 1); };
        result = pointwise({result, column(index), column(source)}, x.dtype, [&](Expr& e, const Nodes& n) {
            const auto here =
                e.apply(Op::Eq, DType::Bool, {e.cast(n[1], DType::I64), e.index(static_cast<int>(d))});
            return e.apply(Op::Select,
                           {here, e.cast(n[2], e.nodes[static_cast<std::size_t>(n[0])].type), n[0]});
        });
    }
    return result;
}

/// The positions x[indices] as one number each, counted over the indexed dimensions alone. [N]
Tensor GraphBuilder::linear_positions(const std::vector<Tensor>& given, const Shape& extents) {
    const std::int64_t count = volume(given.front().shape());
    std::vector<Tensor> flat;
    for (const Tensor& index : given) flat.push_back(reshape(index, {count}));
    return contiguous(pointwise(flat, DType::I64, [&](Expr& e, const Nodes& n) {
        std::int32_t position = integer(e, 0);
        for (std::size_t i = 0; i < n.size(); ++i) {
            const auto extent = integer(e, extents[i]);
            const auto at = e.cast(n[i], DType::I64);
            const auto negative = e.apply(Op::Lt, DType::Bool, {at, integer(e, 0)});
            const auto counted = e.apply(Op::Select, {negative, e.apply(Op::Add, {at, extent}), at});
            position = e.apply(Op::Add, {e.apply(Op::Mul, {position, extent}), counted});
        }
        return position;
    }));
}

/// [rows, N] of `dtype`: 1 where a row's position is position n, else 0.
Tensor GraphBuilder::matches(const Tensor& row_positions, const Tensor& positions, DType dtype) {
    return pointwise({unsqueeze(row_positions, 1), unsqueeze(positions, 0)}, dtype,
                     [&](Expr& e, const Nodes& n) {
                         return e.cast(e.apply(Op::Eq, DType::Bool, {n[0], n[1]}), compute_type(dtype));
                     });
}

Tensor GraphBuilder::index_add(const Tensor& x, const std::vector<std::optional<Tensor>>& indices,
                               const Tensor& values) {
    const std::vector<Tensor> given = index_tensors(x, indices);
    const Shape spanned = given.front().shape();
    std::vector<int> order, rest;
    Shape extents, kept;
    for (std::size_t d = 0; d < x.rank(); ++d) {
        const bool indexed = d < indices.size() && indices[d].has_value();
        (indexed ? order : rest).push_back(static_cast<int>(d));
        (indexed ? extents : kept).push_back(x.shape()[d]);
    }
    const bool adjacent = order.back() - order.front() + 1 == static_cast<int>(order.size());
    const std::size_t begin = adjacent ? static_cast<std::size_t>(order.front()) : 0;
    order.insert(order.end(), rest.begin(), rest.end());

    // Values as [N, columns], the target as [rows, columns].
    Shape shape = kept;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(begin), spanned.begin(), spanned.end());
    std::vector<int> spanned_first(spanned.size());
    std::iota(spanned_first.begin(), spanned_first.end(), static_cast<int>(begin));
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (i < begin || i >= begin + spanned.size()) spanned_first.push_back(static_cast<int>(i));
    }
    const std::int64_t count = volume(spanned), rows = volume(extents), columns = volume(kept);
    const Tensor added = reshape(permute(broadcast(values, shape), spanned_first), {count, columns});
    const Tensor positions = linear_positions(given, extents);
    const Tensor sums = summed_rows(positions, cast(added, x.dtype), rows);

    Shape permuted_shape = extents;
    permuted_shape.insert(permuted_shape.end(), kept.begin(), kept.end());
    std::vector<int> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    return apply(Op::Add, {x, permute(reshape(sums, permuted_shape), back)}, x.dtype);
}

/// [rows, columns]: row r is the sum of the `added` [N, columns] at the positions that are r, in order.
Tensor GraphBuilder::summed_rows(const Tensor& positions, const Tensor& added, std::int64_t rows) {
    const std::int64_t count = added.shape()[0];
    const DType compute = compute_type(added.dtype);
    if (rows <= count)
        return matmul(matches(arange(rows, 0, 1, DType::I64), positions, added.dtype), added, compute);
    // Few of many rows: each position sums all that share its row, and a row takes the sum of its first position.
    const Tensor sums = matmul(matches(positions, positions, added.dtype), added, compute);
    const Tensor first =
        reduce(ReduceOp::Min,
               pointwise({expand(unsqueeze(positions, 0), {rows, count})}, DType::I64,
                         [&](Expr& e, const Nodes& n) {
                             const auto here = e.apply(Op::Eq, DType::Bool, {n[0], e.index(0)});
                             return e.apply(Op::Select, {here, e.index(1), integer(e, count)});
                         }),
               {1}, false, DType::I64);
    const Tensor inside = pointwise({first}, DType::I64, [&](Expr& e, const Nodes& n) {
        return e.apply(Op::Min, {n[0], integer(e, count - 1)});
    });
    return pointwise({index(contiguous(sums), {inside}), unsqueeze(first, 1)}, compute,
                     [&](Expr& e, const Nodes& n) {
                         const auto some = e.apply(Op::Lt, DType::Bool, {n[1], integer(e, count)});
                         return e.apply(Op::Select, {some, n[0], e.constant(0, compute)});
                     });
}

}  // namespace stretto
