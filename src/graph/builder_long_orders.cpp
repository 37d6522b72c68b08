#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "graph/builder.h"

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

/// How many keys of an ascending block come before `key`, those that are equal to it only if `earlier`.
std::int32_t found_before(Expr& e, const Access& block, std::int32_t key, std::int32_t earlier) {
    const auto comes_before = [&](std::int32_t at) {
        const std::int32_t other = e.load(block, {at});
        const std::int32_t equal = e.apply(Op::And, {e.apply(Op::Eq, {other, key}), earlier});
        return e.apply(Op::Or, {e.apply(Op::Lt, {other, key}), equal});
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

Tensor GraphBuilder::places_by_blocks(const Tensor& keys, bool descending) {
    Shape lead = keys.shape();
    const std::int64_t count = lead.back();
    lead.pop_back();
    const std::int64_t size = block_of(count);
    const std::int64_t blocks = (count + size - 1) / size;
    // -1 - key has the opposite order. Behind the last key stand some that no key comes after.
    const Tensor ascending = pointwise({keys}, keys.dtype, [&](Expr& e, const Nodes& n) {
        return descending ? e.apply(Op::Sub, {integer(e, -1), n[0]}) : n[0];
    });
    const Tensor rest = pointwise({}, keys.dtype, [&](Expr& e, const Nodes&) {
        return integer(e, std::numeric_limits<std::int64_t>::max());
    });
    const Tensor padded = concat({ascending, expand(rest, with(lead, {blocks * size - count}))}, -1);
    const Tensor in_blocks = reshape(padded, with(lead, {blocks, size}));
    const Tensor own_places = counted_places(in_blocks, -1, false);
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
    const std::int32_t earlier = e.apply(Op::Lt, {other, own});
    const std::int32_t found = found_before(e, block, e.load(of_key(padded)), earlier);
    e.apply(Op::Select, {e.apply(Op::Eq, {other, own}), e.load(of_key(own_places)), found});
    return add({{DType::I64, with(lead, {count})}, std::move(sum), {}});
}

}  // namespace stretto
