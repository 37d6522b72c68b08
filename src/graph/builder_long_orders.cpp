#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "graph/builder.h"
#include "graph/value_range.h"

/// Orders of many keys. Each key counts what comes before it in its own block; the keys of each block are put into their order;
/// then each key finds in every other block how many of its keys come before it, by a binary search.
namespace stretto {
namespace {

using Nodes = std::vector<std::int32_t>;

std::int32_t integer(Expr& e, std::int64_t value) { return e.add({Op::Const, DType::I64, {}, value, 0}); }

/// Keys of a block, a power of two: to count within longer ones takes longer than to search more of them, and with at least 32
/// blocks all warps of a worker share the searches of its keys.
std::int64_t block_of(std::int64_t count) {
    const auto share = std::bit_floor(static_cast<std::uint64_t>(count / 32));
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(share), 64, 512);
}

Shape with(Shape shape, const Shape& last) {
    shape.insert(shape.end(), last.begin(), last.end());
    return shape;
}

/// How many keys of an ascending block come before `key`, those that are equal to it only if `earlier` holds, where it is given.
std::int32_t found_before(Expr& e, const Access& block, std::int32_t key,
                          std::optional<std::int32_t> earlier) {
    const auto comes_before = [&](std::int32_t at) {
        const std::int32_t other = e.load(block, {at});
        const std::int32_t less = e.apply(Op::Lt, {other, key});
        if (!earlier) return less;
        return e.apply(Op::Or, {less, e.apply(Op::And, {e.apply(Op::Eq, {other, key}), *earlier})});
    };
    std::int32_t found = integer(e, 0);
    // What is found so far is a multiple of two steps: its sums are its bits.
    for (std::int64_t step = block.indirect.front().extent / 2; step > 0; step /= 2) {
        const std::int32_t last = e.apply(Op::BitOr, {found, integer(e, step - 1)});
        const std::int32_t next = e.apply(Op::BitOr, {found, integer(e, step)});
        found = e.apply(Op::Select, {comes_before(last), next, found});
    }
    const std::int32_t all = e.apply(Op::Add, {found, integer(e, 1)});
    return e.apply(Op::Select, {comes_before(found), all, found});
}

}  // namespace

Tensor GraphBuilder::put_at(const Tensor& places, const Tensor& values) {
    const Shape shape = places.shape();
    const Tensor state = full(shape, 0, values.dtype);
    Update update;
    update.space = shape;
    update.indices.push_back(update.expr.load(access(places)));
    update.target = access(state);
    update.target.map.dims.back() = {atom(shape.back(), 0)};
    update.target.indirect = {{1, shape.back()}};
    return updated(state, std::move(update), values);
}

std::optional<Range> GraphBuilder::range_of(ValueId value) {
    if (const auto known = ranges_.find(value); known != ranges_.end()) return known->second;
    const auto* op = std::get_if<Pointwise>(&graph_[value].op);
    std::optional<Range> range;
    if (op != nullptr) {
        const Expr expr = op->expr;
        range = value_ranges(expr, [&](const Access& a) { return range_of(ValueId(a.source)); }).back();
    }
    return ranges_[value] = range;
}

GraphBuilder::Ranked GraphBuilder::ranked(const Tensor& keys, std::int64_t padding, bool descending) {
    Shape rest = keys.shape();
    const std::int64_t total = rest.back() + padding;
    const auto last = static_cast<int>(rest.size()) - 1;
    rest.back() = padding;
    const auto padded = [&](const Tensor& x, std::int64_t value) {
        const Tensor behind =
            pointwise({}, DType::I64, [&](Expr& e, const Nodes&) { return integer(e, value); });
        return concat({x, expand(behind, rest)}, -1);
    };
    const auto range = range_of(keys.value);
    constexpr std::int64_t kMost = std::int64_t{1} << 62;
    if (!range || range->begin < -kMost || range->end > kMost || range->size() >= kMost / total) {
        // -1 - key has the opposite order.
        const Tensor ascending = pointwise({keys}, DType::I64, [&](Expr& e, const Nodes& n) {
            return descending ? e.apply(Op::Sub, {integer(e, -1), n[0]}) : n[0];
        });
        return {padded(ascending, std::numeric_limits<std::int64_t>::max()), false};
    }
    const bool narrow = range->size() < (std::int64_t{1} << 31) / total;
    const Tensor all = padded(keys, descending ? range->begin - 1 : range->end);
    return {pointwise(
                {all}, narrow ? DType::I32 : DType::I64,
                [&](Expr& e, const Nodes& n) {
                    const std::int32_t key = descending ? e.apply(Op::Sub, {integer(e, range->end - 1), n[0]})
                                                        : e.apply(Op::Sub, {n[0], integer(e, range->begin)});
                    return e.apply(Op::Add, {e.apply(Op::Mul, {key, integer(e, total)}), e.index(last)});
                }),
            true};
}

Tensor GraphBuilder::places_by_blocks(const Tensor& keys, bool descending) {
    Shape lead = keys.shape();
    const std::int64_t count = lead.back();
    lead.pop_back();
    const std::int64_t size = block_of(count);
    const std::int64_t blocks = (count + size - 1) / size;
    const auto [padded, unique] = ranked(keys, blocks * size - count, descending);
    const Tensor in_blocks = reshape(padded, with(lead, {blocks, size}));
    const Tensor own_places = counted_places(in_blocks, -1, false, unique);
    const Tensor sorted = put_at(own_places, in_blocks);

    const std::size_t rank = lead.size();
    const auto of_key = [&](const Tensor& x) {
        const Tensor row = slice(reshape(x, with(lead, {blocks * size})), -1, 0, count);
        return access(expand(unsqueeze(row, -1), with(lead, {count, blocks})));
    };
    Access block = access(sorted);
    block.map = inserted_dim(removed_dim(slice(sorted, -1, 0, 1).map, rank + 1), rank, count);
    block.indirect = {{1, size}};
    Reduce sum{ReduceOp::Sum, {blocks}, {}};
    Expr& e = sum.term;
    const std::int32_t other = e.index(static_cast<int>(rank) + 1);
    const std::int32_t own = e.apply(Op::FloorDiv, {e.index(static_cast<int>(rank)), integer(e, size)});
    const std::int32_t key = e.load(of_key(padded));
    std::optional<std::int32_t> earlier;
    if (!unique) earlier = e.apply(Op::Lt, {other, own});
    const std::int32_t found = found_before(e, block, key, earlier);
    e.apply(Op::Select, {e.apply(Op::Eq, {other, own}), e.load(of_key(own_places)), found});
    return add({{DType::I64, with(lead, {count})}, std::move(sum), {}});
}

}  // namespace stretto
