#include <fmt/format.h>

#include <utility>

#include "graph/builder.h"
#include "graph/promote.h"

/// Orders of elements and running sums, as reductions over pairs of positions: every element counts what comes before it.
/// That is quadratic in the length, but it spreads over all workers and takes two phases, not a logarithm of them. Long orders
/// count within blocks (builder_long_orders.cpp).
namespace stretto {
namespace {

using Nodes = std::vector<std::int32_t>;

/// Of the positions in an argmax key: as many as leave room for 32 bits of value in the 53 that a double has, too.
constexpr std::int64_t kPositions = 1 << 20;

/// An I64 that orders elements as PyTorch's argmax does.
std::int32_t order_of(Expr& e, std::int32_t element, DType type) {
    if (!is_float(type)) return e.cast(element, DType::I64);
    const auto number = [&](double value) { return e.constant(value, DType::I64); };
    const std::int32_t x = compute_type(type) == type ? element : e.cast(element, DType::F32);
    const std::int32_t zero = e.constant(0, DType::F32);
    // Both zeros have the same order.
    const std::int32_t unsigned_zero = e.apply(Op::Select, {e.apply(Op::Eq, {x, zero}), zero, x});
    const std::int32_t bits = e.cast(e.apply(Op::Bits, DType::I32, {unsigned_zero}), DType::I64);
    const std::int32_t mirrored = e.apply(Op::Sub, {number(-0x1p31 - 1), bits});
    const std::int32_t negative = e.apply(Op::Lt, {bits, number(0)});
    const std::int32_t ordered = e.apply(Op::Select, {negative, mirrored, bits});
    return e.apply(Op::Select, {e.apply(Op::Ne, {x, x}), number(0x1p31 - 1), ordered});
}

/// Up to so many elements, comparing all pairs is quicker than a data-dependent store by one worker.
constexpr std::int64_t kShort = 256;

/// Of more elements, comparing all pairs takes longer than one more phase.
constexpr std::int64_t kLongestCounted = 2048;

/// Term of a sum that counts the positions where `condition` holds.
std::int32_t counted(Expr& e, std::int32_t condition, std::int32_t term, DType type) {
    return e.apply(Op::Select, {condition, term, e.constant(0, type)});
}

}  // namespace

Tensor GraphBuilder::argmax(const Tensor& x, int dim, bool keep_dim) {
    const std::size_t d = dim_of(x, dim);
    if (x.dtype == DType::F64 || x.dtype == DType::I64) {
        fail(fmt::format("argmax of {} is not supported: cast to a type of at most 32 bits", name(x.dtype)));
    }
    if (x.rank() == 0) return full({}, 0, DType::I64);
    if (x.shape()[d] > kPositions) fail(fmt::format("argmax of more than {} elements", kPositions));
    // Value and position in one number, so that one reduction finds both.
    const Tensor keys = pointwise({x}, DType::I64, [&](Expr& e, const std::vector<std::int32_t>& nodes) {
        const std::int32_t scale = e.constant(kPositions, DType::I64);
        const std::int32_t order = e.apply(Op::Mul, {order_of(e, nodes[0], x.dtype), scale});
        const std::int32_t last = e.constant(kPositions - 1, DType::I64);
        return e.apply(Op::Add, {order, e.apply(Op::Sub, {last, e.index(static_cast<int>(d))})});
    });
    const Tensor best = reduce(ReduceOp::Max, keys, {dim}, keep_dim, DType::I64);
    return pointwise({best}, DType::I64, [&](Expr& e, const std::vector<std::int32_t>& nodes) {
        const std::int32_t rest = e.apply(Op::Mod, {nodes[0], e.constant(kPositions, DType::I64)});
        return e.apply(Op::Sub, {e.constant(kPositions - 1, DType::I64), rest});
    });
}

/// result[.., i, ..] = sum over j of term(x[.., i, ..], x[.., j, ..]), along `dim`.
Tensor GraphBuilder::pairs(const Tensor& x, int dim, DType result, const PairTerm& term) {
    const int last = static_cast<int>(x.rank());
    const Tensor moved = unsqueeze(transpose(x, dim, -1), -1);
    const Tensor terms =
        pointwise({moved, transpose(moved, -1, -2)}, compute_type(result), [&](Expr& e, const Nodes& n) {
            return term(e, {n[0], e.index(last - 1)}, {n[1], e.index(last)});
        });
    return transpose(reduce(ReduceOp::Sum, terms, {-1}, false, result), dim, -1);
}

Tensor GraphBuilder::counted_places(const Tensor& keys, int dim, bool descending, bool unique) {
    return pairs(keys, dim, DType::I64, [&](Expr& e, const Element& own, const Element& other) {
        const auto [low, high] = descending ? std::pair(own, other) : std::pair(other, own);
        const std::int32_t before = e.apply(Op::Lt, {low.value, high.value});
        if (unique) return counted(e, before, e.constant(1, DType::I64), DType::I64);
        const std::int32_t equal = e.apply(Op::Eq, {own.value, other.value});
        const std::int32_t earlier =
            e.apply(Op::And, {equal, e.apply(Op::Lt, {other.position, own.position})});
        return counted(e, e.apply(Op::Or, {before, earlier}), e.constant(1, DType::I64), DType::I64);
    });
}

Tensor GraphBuilder::argsort(const Tensor& x, int dim, bool descending) {
    if (x.dtype == DType::F64) fail("sorting F64 is not supported: cast to F32");
    if (x.rank() == 0) return full({}, 0, DType::I64);
    const auto known = shared_places(x);
    if (known && known->share == 1 && !descending) return known->inverse;
    const Tensor keys =
        pointwise({x}, DType::I64, [&](Expr& e, const Nodes& n) { return order_of(e, n[0], x.dtype); });
    const std::int64_t count = x.shape()[dim_of(x, dim)];
    const bool by_blocks = count > kLongestCounted;
    const auto along_last = [&](const Tensor& t) { return transpose(t, dim, -1); };
    const Tensor places = by_blocks ? along_last(places_by_blocks(along_last(keys), descending))
                                    : counted_places(keys, dim, descending);
    const Tensor order =
        by_blocks || (x.rank() == 1 && count > kShort)
            ? along_last(put_at(along_last(places), arange(count, 0, 1, DType::I64)))
            : pairs(places, dim, DType::I64, [&](Expr& e, const Element& own, const Element& other) {
                  return counted(e, e.apply(Op::Eq, {other.value, own.position}), other.position, DType::I64);
              });
    ranges_[order.value] = ranges_[places.value] = Range{0, count};
    if (x.rank() == 1) {
        inverses_.emplace(order.value, places);
        inverses_.emplace(places.value, order);
    }
    return order;
}

Tensor GraphBuilder::cumsum(const Tensor& x, int dim, DType result) {
    if (x.rank() == 0) return cast(x, result);
    const DType compute = compute_type(result);
    return pairs(x, dim, result, [&](Expr& e, const Element& own, const Element& other) {
        const std::int32_t within = e.apply(Op::Le, {other.position, own.position});
        return counted(e, within, e.cast(other.value, compute), compute);
    });
}

Tensor GraphBuilder::gather(const Tensor& x, int dim, const Tensor& index) {
    const std::size_t d = dim_of(x, dim);
    Tensor source = {x.value, normalized(x.map), x.dtype};
    const Shape shape = index.shape();
    if (shape.size() != x.rank()) {
        fail(
            fmt::format("an index of shape {} for a tensor of shape {}", to_text(shape), to_text(x.shape())));
    }
    if (x.rank() == 0) return x;
    if (source.map.dims[d].size() != 1 || source.map.dims[d].front().masked()) source = copied(source);
    Tensor part = source;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (i == d) continue;
        if (shape[i] > x.shape()[i]) fail("the index has more positions than the tensor");
        part = slice(part, static_cast<int>(i), 0, shape[i]);
    }
    const Atom digit = part.map.dims[d].front();
    Access load = access(part);
    load.map = inserted_dim(removed_dim(slice(part, dim, 0, 1).map, d), d, shape[d]);
    load.indirect = {{digit.stride, digit.extent}};
    Expr expr;
    const std::int32_t at = expr.load(access(index));
    expr.load(std::move(load), {at});
    return add({{x.dtype, shape}, Pointwise{std::move(expr)}, {}});
}

}  // namespace stretto
