#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/warp.h"
#include "graph/builder.h"
#include "graph/promote.h"

namespace stretto {
namespace {

/// A warp reduces one position. What is longer than this is worth two hand-offs; rows of a norm are not, and stay whole.
constexpr std::int64_t kLongReduction = 16'384;
/// With so many positions every warp has work anyway.
constexpr std::int64_t kManyPositions = 1'024;

/// Of an outer dimension a task's warps share the terms of some results: more terms than this are worth two hand-offs.
constexpr std::int64_t kLongOuter = 4'096;

/// The number of parts, a divisor of `count`, in which an outer dimension is reduced: the fewest that are not long.
std::int64_t parts_of_outer(std::int64_t count) {
    const std::int64_t fewest = std::max<std::int64_t>((count + kLongOuter - 1) / kLongOuter, 1);
    for (std::int64_t parts = fewest; parts * kLanesOfWarp <= count; ++parts) {
        if (count % parts == 0) return parts;
    }
    return 1;
}

/// Are neighbours in memory different results?
bool reduces_outer(const IndexMap& map, std::size_t kept) {
    if (kept == 0 || map.dims.size() == kept) return false;
    const Atom& across = map.dims[kept - 1].back();
    return across.stride == 1 && across.extent > 1 && map.dims.back().back().stride != 1;
}

/// The number of parts, a divisor of `count`, for which a part and then the parts' results take the fewest steps.
std::int64_t parts_of(std::int64_t count) {
    const auto steps = [&](std::int64_t parts) {
        return (count / parts + kLanesOfWarp - 1) / kLanesOfWarp + (parts + kLanesOfWarp - 1) / kLanesOfWarp;
    };
    std::int64_t best = 1;
    for (std::int64_t divisor = 1; divisor * divisor <= count; ++divisor) {
        if (count % divisor != 0) continue;
        for (const std::int64_t parts : {divisor, count / divisor}) {
            if (steps(parts) < steps(best)) best = parts;
        }
    }
    return best;
}

}  // namespace

Tensor GraphBuilder::reduce(ReduceOp op, const Tensor& x, std::vector<int> dims, bool keep_dim,
                            DType result) {
    const Shape shape = x.shape();
    std::vector<bool> reduced(shape.size(), dims.empty());
    for (const int dim : dims) {
        const std::size_t d = dim_of(x, dim);
        if (d < reduced.size()) reduced[d] = true;
    }
    std::vector<int> order;
    Shape kept, extents, with_ones;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (!reduced[d]) order.push_back(static_cast<int>(d));
        if (!reduced[d]) kept.push_back(shape[d]);
        with_ones.push_back(reduced[d] ? 1 : shape[d]);
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (reduced[d]) order.push_back(static_cast<int>(d));
        if (reduced[d]) extents.push_back(shape[d]);
    }
    if (extents.empty()) return cast(x, result);
    if (op != ReduceOp::Sum && volume(extents) == 0 && volume(kept) > 0) {
        fail(fmt::format("the maximum or minimum of nothing: shape {}", to_text(shape)));
    }
    if (volume(extents) == 1) return cast(reshape(x, keep_dim ? with_ones : kept), result);
    const Tensor value = reduction(op, {x.value, permuted(x.map, order), x.dtype}, kept, extents, result);
    return keep_dim ? reshape(value, with_ones) : value;
}

/// `x` has the dimensions `kept`, then `extents`.
Tensor GraphBuilder::reduction(ReduceOp op, const Tensor& x, const Shape& kept, const Shape& extents,
                               DType result) {
    const std::int64_t count = volume(extents);
    const bool few = volume(kept) < kManyPositions;
    const bool outer = reduces_outer(x.map, kept.size());
    const std::int64_t parts = outer                           ? parts_of_outer(count)
                               : few && count > kLongReduction ? parts_of(count)
                                                               : 1;
    if (parts > 1) {
        Shape split = kept;
        split.push_back(parts);
        split.push_back(count / parts);
        if (const auto map = reshaped(x.map, split)) {
            const DType partial = is_float(result) ? compute_type(result) : result;
            // The dimension whose neighbours lie together stays the last of the results.
            const int rank = static_cast<int>(kept.size());
            std::vector<int> order(split.size());
            std::iota(order.begin(), order.end(), 0);
            if (outer) std::rotate(order.begin(), order.begin() + rank, order.end() - 1);
            const IndexMap ordered = permuted(*map, order);
            Shape positions = ordered.shape();
            positions.pop_back();
            Tensor of_parts = reduction(op, {x.value, ordered, x.dtype}, positions, {count / parts}, partial);
            if (outer)
                std::rotate(of_parts.map.dims.begin(), of_parts.map.dims.begin() + 1,
                            of_parts.map.dims.end());
            return reduction(op, of_parts, kept, {parts}, result);
        }
    }
    Expr term;
    const auto element = term.load(access(x));
    if (compute_type(x.dtype) != compute_type(result)) term.cast(element, compute_type(result));
    return add({{result, kept}, Reduce{op, extents, std::move(term)}, {}});
}

Tensor GraphBuilder::softmax(const Tensor& x, int dim, DType result) {
    const DType compute = is_float(result) ? compute_type(result) : DType::F32;
    const Tensor top = reduce(ReduceOp::Max, x, {dim}, true, compute);
    const Tensor shifted = pointwise({x, top}, compute, [&](Expr& expr, const auto& nodes) {
        const auto difference = apply_typed(expr, Op::Sub, compute, {nodes[0], nodes[1]});
        return expr.apply(Op::Exp, compute, {difference});
    });
    const Tensor total = reduce(ReduceOp::Sum, shifted, {dim}, true, compute);
    return apply(Op::Div, {shifted, total}, result);
}

/// a[..., M, K] times b[..., K, N], both of rank 2 and more, with equal or broadcast leading dimensions.
Tensor GraphBuilder::contract(const Tensor& a, const Tensor& b, DType result) {
    Shape left = a.shape(), right = b.shape();
    const std::int64_t m = left[left.size() - 2], k = left.back(), n = right.back();
    if (right[right.size() - 2] != k) {
        fail(fmt::format("cannot multiply shapes {} and {}", to_text(left), to_text(right)));
    }
    const Tensor a_batch = {a.value, identity_map({left.begin(), left.end() - 2}), a.dtype};
    const Tensor b_batch = {b.value, identity_map({right.begin(), right.end() - 2}), b.dtype};
    Shape batch = common_shape({a_batch, b_batch});
    const std::int64_t count = volume(batch);
    const auto grown = [&](const Tensor& x, std::int64_t rows, std::int64_t columns) {
        Shape full = batch;
        full.insert(full.end(), {rows, columns});
        return reshape(broadcast(x, full), {count, rows, columns});
    };
    const Tensor a3 = grown(a, m, k), b3 = grown(b, k, n);
    Shape shape = batch;
    shape.insert(shape.end(), {m, n});
    if (k == 1) return reshape(apply(Op::Mul, {a3, b3}, result), shape);

    Contract node;
    node.space = {count, m, n, k};
    node.a = access(a3);
    node.a.map = inserted_dim(node.a.map, 2, n);
    node.b = access(b3);
    node.b.map = inserted_dim(permuted(node.b.map, {0, 2, 1}), 1, m);
    return reshape(add({{result, {count, m, n}}, std::move(node), {}}), shape);
}

Tensor GraphBuilder::matmul(const Tensor& a, const Tensor& b) { return matmul(a, b, a.dtype); }

Tensor GraphBuilder::matmul(const Tensor& a, const Tensor& b, DType result) {
    if (a.rank() == 0 || b.rank() == 0) fail("cannot multiply a scalar as a matrix");
    if (a.dtype != b.dtype || !is_float(a.dtype)) {
        fail(fmt::format("cannot multiply matrices of {} and {}", name(a.dtype), name(b.dtype)));
    }
    if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b, result), b.rank() == 1 ? 0 : -2);
    if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1), result), -1);
    if (b.rank() > 2 || a.rank() == 2) return contract(a, b, result);
    // The leading dimensions of `a` are rows of one product, so that b is read once.
    Shape shape = a.shape();
    const Tensor rows = reshape(a, {-1, shape.back()});
    shape.back() = b.shape().back();
    return reshape(contract(rows, b, result), shape);
}

Tensor GraphBuilder::linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
    const Tensor columns = weight.rank() == 2 ? transpose(weight, 0, 1) : weight;
    if (!bias) return matmul(x, columns);
    // PyTorch rounds once, after the bias.
    return apply(Op::Add, {matmul(x, columns, compute_type(x.dtype)), *bias}, x.dtype);
}

Tensor GraphBuilder::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const std::optional<Tensor>& mask, bool causal, double scale) {
    if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) fail("attention takes operands of rank 4");
    if (!is_float(q.dtype) || q.dtype != k.dtype || q.dtype != v.dtype) {
        fail(fmt::format("attention operands have types {}, {}, {}", name(q.dtype), name(k.dtype),
                         name(v.dtype)));
    }
    if (causal && mask) fail("attention takes a mask or is causal, not both");
    const Shape qs = q.shape(), ks = k.shape();
    const std::int64_t b = qs[0], h = qs[1], rows = qs[2], d = qs[3], heads = ks[1], s = ks[2];
    const bool grouped = heads > 0 && h % heads == 0;
    if (ks != v.shape() || ks[0] != b || ks[3] != d || !grouped) {
        fail(fmt::format("attention does not fit: query {}, key {}, value {}", to_text(qs), to_text(ks),
                         to_text(v.shape())));
    }
    const auto spread = [&](const Tensor& x) {
        if (heads == h) return x;
        return reshape(expand(unsqueeze(x, 2), {b, heads, h / heads, s, d}), {b, h, s, d});
    };
    Attention node;
    node.space = {b, h, rows, s, d};
    node.scale = scale;
    node.query = access(q);
    node.key = access(spread(k));
    node.value = access(spread(v));
    if (mask) node.mask.load(access(broadcast(*mask, {b, h, rows, s})));
    if (causal) node.mask.apply(Op::Le, DType::Bool, {node.mask.index(3), node.mask.index(2)});
    return add({{q.dtype, {b, h, rows, d}}, std::move(node), {}});
}

}  // namespace stretto
