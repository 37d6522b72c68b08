#include "fuse/product_split.h"

#include <algorithm>

namespace stretto {
namespace {

constexpr std::size_t kDepth = 3;  ///< dimension of k

/// `count` parts of `depth` values of k from `begin` on, as the outermost digits of the batch.
std::optional<IndexMap> parts_of(const IndexMap& map, std::int64_t begin, std::int64_t count,
                                 std::int64_t depth) {
    auto part = sliced(map, kDepth, begin, count * depth);
    if (!part) return std::nullopt;
    Shape shape = part->shape();
    shape[kDepth] = depth;
    shape.insert(shape.begin() + kDepth, count);
    part = reshaped(*part, shape);
    if (!part) return std::nullopt;
    IndexMap joined = permuted(*part, {3, 0, 1, 2, 4});
    std::vector<Atom>& batch = joined.dims[0];
    batch.insert(batch.end(), joined.dims[1].begin(), joined.dims[1].end());
    joined.dims.erase(joined.dims.begin() + 1);
    return joined;
}

/// The left side over parts of k, whose coordinates are those of the whole product.
std::optional<Expr> left_side(const Expr& whole, std::int64_t batch, std::int64_t begin, std::int64_t count,
                              std::int64_t depth) {
    Expr moved = whole;
    for (Access& access : moved.accesses) {
        const auto map = parts_of(access.map, begin, count, depth);
        if (!map) return std::nullopt;
        access.map = *map;
    }
    return rewritten(moved, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const ExprNode& node = moved.nodes[i];
        const bool is_depth = node.integer == static_cast<std::int64_t>(kDepth);
        if (node.op != Op::Index || (!is_depth && node.integer != 0)) return std::nullopt;
        const auto number = [&](std::int64_t value) {
            return out.constant(static_cast<double>(value), DType::I64);
        };
        const std::int32_t entry = out.index(0);
        const std::int32_t part = out.apply(Op::FloorDiv, {entry, number(batch)});
        if (!is_depth) {
            const std::int32_t before = out.apply(Op::Mul, {part, number(batch)});
            return out.apply(Op::Sub, {entry, before});
        }
        const std::int32_t first =
            out.apply(Op::Add, {number(begin), out.apply(Op::Mul, {part, number(depth)})});
        return out.apply(Op::Add, {first, out.index(static_cast<int>(kDepth))});
    });
}

/// The product over parts of k, stored to slots of `results` from `slot` on.
std::optional<Region> parts(const Region& whole, std::int64_t begin, std::int64_t count, std::int64_t depth,
                            const std::vector<Access>& results, std::int64_t slot) {
    MatMulRegion region = std::get<MatMulRegion>(whole.body);
    const auto [batch, m, n, k] = region.space;
    region.space = {count * batch, m, n, depth};
    auto left = left_side(region.a, batch, begin, count, depth);
    if (!left) return std::nullopt;
    region.a = std::move(*left);
    for (Access& weight : region.weights) {
        const auto map = parts_of(weight.map, begin, count, depth);
        if (!map) return std::nullopt;
        weight.map = *map;
    }
    region.stores.clear();
    for (std::size_t j = 0; j < results.size(); ++j) {
        Store store{results[j], {}, {}};
        store.target.map = {{{atom(count * batch, m * n)}, {atom(m, n)}, {atom(n, 1)}, {atom(depth, 0)}},
                            slot * batch * m * n};
        store.expr.acc(static_cast<int>(j));
        region.stores.push_back(std::move(store));
    }
    return Region{whole.name + (slot == 0 ? ".parts" : ".rest"), std::move(region)};
}

/// The expression of a store with each accumulator as the sum of its slots, in order.
Expr summed(const Expr& expr, const std::vector<Access>& results, const std::array<std::int64_t, 4>& space,
            std::int64_t slots) {
    const auto [batch, m, n, k] = space;
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        if (expr.nodes[i].op != Op::Acc) return std::nullopt;
        Access result = results.at(static_cast<std::size_t>(expr.nodes[i].integer));
        result.map.dims = {{atom(batch, m * n)}, {atom(m, n)}, {atom(n, 1)}, {atom(1, 0)}};
        std::int32_t sum = -1;
        for (std::int64_t slot = 0; slot < slots; ++slot) {
            result.map.offset = slot * batch * m * n;
            const std::int32_t part = out.load(result);
            sum = slot == 0 ? part : out.apply(Op::Add, {sum, part});
        }
        return out.cast(sum, expr.nodes[i].type);
    });
}

}  // namespace

std::optional<std::vector<Region>> split_product(const Region& region, std::int64_t depth,
                                                 std::vector<Buffer>& buffers) {
    const auto& product = std::get<MatMulRegion>(region.body);
    const auto [batch, m, n, k] = product.space;
    const std::int64_t whole = k / depth;
    const std::int64_t rest = k % depth;
    const std::int64_t slots = whole + (rest > 0 ? 1 : 0);
    std::vector<Access> results;
    for (std::size_t j = 0; j < product.weights.size(); ++j) {
        results.push_back({static_cast<std::int32_t>(buffers.size() + j), DType::F32, {}, {}});
    }
    std::vector<Region> list;
    const auto add = [&](std::int64_t begin, std::int64_t count, std::int64_t length) {
        auto part = parts(region, begin, count, length, results, begin / depth);
        if (part) list.push_back(std::move(*part));
        return part.has_value();
    };
    const bool indirect = std::any_of(product.stores.begin(), product.stores.end(),
                                      [](const Store& store) { return !store.indices.empty(); });
    if (indirect || !add(0, whole, depth) || (rest > 0 && !add(whole * depth, 1, rest))) return std::nullopt;
    MapRegion sum{{batch, m, n, 1}, {}};
    for (Store store : product.stores) {
        store.expr = summed(store.expr, results, product.space, slots);
        for (Access& access : store.expr.accesses) access.map.dims[kDepth] = {atom(1, 0)};
        store.target.map.dims[kDepth] = {atom(1, 0)};
        sum.stores.push_back(std::move(store));
    }
    list.push_back({region.name, std::move(sum)});
    for (std::size_t j = 0; j < results.size(); ++j) {
        buffers.push_back({region.name + ".parts." + std::to_string(j),
                           DType::F32,
                           {slots, batch, m, n},
                           BufferRole::Arena,
                           nullptr});
    }
    return list;
}

}  // namespace stretto
