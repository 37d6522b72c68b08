#include <bit>
#include <utility>

#include "graph/builder.h"
#include "graph/indexing.h"
#include "graph/promote.h"

namespace stretto {
namespace {

using Nodes = std::vector<std::int32_t>;

/// Up to so many pairs of a place and a value, every place looks at every value; of more it finds its own first.
constexpr std::int64_t kFewPairs = 1 << 20;

std::int32_t integer(Expr& e, std::int64_t value) { return e.add({Op::Const, DType::I64, {}, value, 0}); }

bool is_integer(DType type) { return type == DType::I64 || type == DType::I32; }

Shape with_last(Shape shape, std::int64_t extent) {
    shape.push_back(extent);
    return shape;
}

/// The row-major strides of the indexed dimensions among themselves; 0 for the others.
Shape strides_of(const Shape& shape, const std::vector<bool>& indexed) {
    Shape strides(shape.size(), 0);
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
        if (indexed[d]) strides[d] = std::exchange(stride, stride * shape[d]);
    }
    return strides;
}

}  // namespace

Tensor GraphBuilder::index_add(const Tensor& x, const std::vector<std::optional<Tensor>>& indices,
                               const Tensor& values) {
    const std::vector<Tensor> given = index_tensors(x, indices);
    const std::vector<bool> indexed = indexed_dims(x, indices);
    const Indexing at = indexing(identity_map(x.shape()), indexed, given.front().shape());
    const Shape strides = strides_of(x.shape(), indexed);
    const std::int64_t count = volume(given.front().shape());
    Shape extents;
    for (std::size_t d = 0; d < x.rank(); ++d) {
        if (indexed[d]) extents.push_back(x.shape()[d]);
    }
    // Values as rows: one for each position that the indices span, with the dimensions of x that are not indexed.
    std::vector<int> order;
    Shape rows{count};
    for (std::size_t d = 0; d < at.count; ++d) order.push_back(static_cast<int>(at.begin + d));
    for (std::size_t d = 0; d < at.shape.size(); ++d) {
        if (d >= at.begin && d < at.begin + at.count) continue;
        order.push_back(static_cast<int>(d));
        rows.push_back(at.shape[d]);
    }
    const Tensor added = reshape(permute(broadcast(values, at.shape), order), rows);
    if (const auto shared = shared_places(reshape(given.front(), {count}));
        shared && indexed.front() && extents.size() == 1 && extents[0] * shared->share == count) {
        return apply(Op::Add, {x, shared_sum(added, *shared)}, x.dtype);
    }
    const Tensor places = linear_positions(given, extents);
    const Tensor sum = volume(x.shape()) * count <= kFewPairs ? matching_sum(x, added, places, strides)
                                                              : segment_sum(x, added, places, strides);
    return apply(Op::Add, {x, sum}, x.dtype);
}

/// Sees through integer casts and divisions.
std::optional<GraphBuilder::SharedPlaces> GraphBuilder::shared_places(const Tensor& numbers) const {
    const Node& node = graph_[numbers.value];
    const Shape& shape = node.type.shape;
    const bool whole = normalized(numbers.map) == normalized(identity_map(shape));
    if (shape.size() != 1 || !whole) return std::nullopt;
    if (const auto known = inverses_.find(numbers.value); known != inverses_.end()) {
        return SharedPlaces{known->second, 1};
    }
    const auto* op = std::get_if<Pointwise>(&node.op);
    return op == nullptr ? std::nullopt : shared_places(op->expr, op->expr.root());
}

std::optional<GraphBuilder::SharedPlaces> GraphBuilder::shared_places(const Expr& expr,
                                                                      std::int32_t node) const {
    const ExprNode& at = expr.nodes[static_cast<std::size_t>(node)];
    const auto argument = [&](std::size_t i) { return shared_places(expr, at.args[i]); };
    switch (at.op) {
        case Op::Load: {
            const Access& access = expr.accesses[static_cast<std::size_t>(at.integer)];
            if (!access.indirect.empty()) return std::nullopt;
            return shared_places({ValueId(access.source), access.map, access.type});
        }
        case Op::Cast:
            return is_integer(at.type) ? argument(0) : std::nullopt;
        case Op::FloorDiv: {
            const ExprNode& divisor = expr.nodes[static_cast<std::size_t>(at.args[1])];
            auto found = argument(0);
            if (!found || divisor.op != Op::Const || !is_integer(divisor.type) || divisor.integer < 1)
                return std::nullopt;
            found->share *= divisor.integer;
            return found;
        }
        default:
            return std::nullopt;
    }
}

/// Each place's rows are where the permutation has its `share` numbers: no order has to be found.
Tensor GraphBuilder::shared_sum(const Tensor& rows, const SharedPlaces& places) {
    const Tensor sorted = index(rows, {places.inverse});
    Shape shape = rows.shape();
    shape.front() /= places.share;
    shape.insert(shape.begin() + 1, places.share);
    return reduce(ReduceOp::Sum, reshape(sorted, shape), {1}, false, compute_type(rows.dtype));
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

/// For each element of x the sum of the rows' elements whose place is its own: over all of them, zero for the others.
Tensor GraphBuilder::matching_sum(const Tensor& x, const Tensor& rows, const Tensor& places,
                                  const Shape& strides) {
    const DType compute = compute_type(x.dtype);
    const std::int64_t count = places.shape()[0];
    const Shape space = with_last(x.shape(), count);
    std::vector<int> order;
    for (int d = 1; d <= static_cast<int>(rows.rank()); ++d)
        order.push_back(d % static_cast<int>(rows.rank()));
    Tensor spread = permute(rows, order);
    for (std::size_t d = 0; d < x.rank(); ++d) {
        if (strides[d] != 0) spread = unsqueeze(spread, static_cast<int>(d));
    }
    const Tensor terms = pointwise(
        {broadcast(spread, space), broadcast(places, space)}, compute, [&](Expr& e, const Nodes& n) {
            std::int32_t own = integer(e, 0);
            for (std::size_t d = 0; d < x.rank(); ++d) {
                if (strides[d] == 0) continue;
                const std::int32_t stride = integer(e, strides[d]);
                own = e.apply(Op::Add, {own, e.apply(Op::Mul, {e.index(static_cast<int>(d)), stride})});
            }
            const std::int32_t mine = e.apply(Op::Eq, {n[1], own});
            return e.apply(Op::Select, {mine, e.cast(n[0], compute), e.constant(0, compute)});
        });
    return reduce(ReduceOp::Sum, terms, {-1}, false, compute);
}

/// For each number below `count`, how many of the ascending numbers are smaller: a binary search in each element.
Tensor GraphBuilder::lower_bounds(const Tensor& ascending, std::int64_t count) {
    const Tensor whole = contiguous(ascending);
    const std::int64_t length = whole.shape()[0];
    Access any = access(whole);
    any.map = {{{atom(count, 0)}}, 0};
    any.indirect = {{1, length}};
    Expr e;
    std::int32_t smaller = integer(e, 0);
    for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(length))); step > 0;
         step /= 2) {
        const std::int32_t next = e.apply(Op::Add, {smaller, integer(e, step)});
        const std::int32_t last =
            e.apply(Op::Min, {e.apply(Op::Sub, {next, integer(e, 1)}), integer(e, length - 1)});
        const std::int32_t inside = e.apply(Op::Le, {next, integer(e, length)});
        const std::int32_t less = e.apply(Op::Lt, {e.load(any, {last}), e.index(0)});
        smaller = e.apply(Op::Select, {e.apply(Op::And, {inside, less}), next, smaller});
    }
    return add({{DType::I64, {count}}, Pointwise{std::move(e)}, {}});
}

/// The same, over the rows in the order of their places: an element's own are neighbours.
Tensor GraphBuilder::segment_sum(const Tensor& x, const Tensor& rows, const Tensor& places,
                                 const Shape& strides) {
    const DType compute = compute_type(x.dtype);
    const std::int64_t count = places.shape()[0];
    const Tensor order = argsort(places, 0, false);
    const Tensor sorted = index(rows, {order});
    std::int64_t place_count = 1;
    for (std::size_t d = 0; d < x.rank(); ++d) place_count *= strides[d] != 0 ? x.shape()[d] : 1;
    const Tensor bounds = lower_bounds(index(places, {order}), place_count + 1);
    const auto bound = [&](std::int64_t after) {
        Access own = access(bounds);
        own.map = {{}, after};
        for (std::size_t d = 0; d < x.rank(); ++d) own.map.dims.push_back({atom(x.shape()[d], strides[d])});
        return own;
    };
    Access element = access(sorted);
    std::vector<std::vector<Atom>> digits = std::exchange(element.map.dims, {});
    std::size_t next = 1;
    for (std::size_t d = 0; d < x.rank(); ++d) {
        element.map.dims.push_back(strides[d] != 0 ? std::vector<Atom>{atom(x.shape()[d], 0)}
                                                   : digits[next++]);
    }
    element.map.dims.push_back(digits.front());
    Reduce sum{
        ReduceOp::Sum, {count}, {}, Ragged{bound(0), bound(1), (count + place_count - 1) / place_count}};
    const std::int32_t value = sum.term.load(std::move(element));
    if (compute_type(sorted.dtype) != compute || sorted.dtype != compute) sum.term.cast(value, compute);
    return add({{compute, x.shape()}, std::move(sum), {}});
}

}  // namespace stretto
