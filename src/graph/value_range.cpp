#include "graph/value_range.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace stretto {
namespace {

using Known = std::optional<Range>;

/// Sums of a few of these are exact.
constexpr std::int64_t kSmall = std::int64_t{1} << 40;

/// One side of what only Min or Max keeps in bounds.
constexpr Range kAnything{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};

Known small(Range range) { return range.begin > -kSmall && range.end < kSmall ? Known(range) : std::nullopt; }

/// The bits of neither number go beyond those of the larger one.
Known of_bits(Range a, Range b) {
    if (a.begin < 0 || b.begin < 0) return std::nullopt;
    const auto highest = static_cast<std::uint64_t>(std::max(a.end, b.end) - 1);
    return Range{std::max(a.begin, b.begin), static_cast<std::int64_t>(std::bit_ceil(highest + 1))};
}

/// Of factors whose product is exact.
Known of_product(Range a, Range b) {
    constexpr Range kFactor{-(std::int64_t{1} << 31), std::int64_t{1} << 31};
    if (!contains(kFactor, a) || !contains(kFactor, b)) return std::nullopt;
    const auto [lowest, highest] = std::minmax(
        {a.begin * b.begin, a.begin * (b.end - 1), (a.end - 1) * b.begin, (a.end - 1) * (b.end - 1)});
    return Range{lowest, highest + 1};
}

Known of_small(Op op, Range a, Range b) {
    switch (op) {
        case Op::Add:
            return small({a.begin + b.begin, a.end + b.end - 1});
        case Op::Sub:
            return small({a.begin - b.end + 1, a.end - b.begin});
        case Op::Mul:
            return of_product(a, b);
        case Op::BitOr:
            return of_bits(a, b);
        case Op::Select:
            return Range{std::min(a.begin, b.begin), std::max(a.end, b.end)};
        case Op::FloorDiv:
            if (a.begin < 0 || b.begin < 1) return std::nullopt;
            return Range{a.begin / (b.end - 1), (a.end - 1) / b.begin + 1};
        default:
            return std::nullopt;
    }
}

Known of_two(Op op, const Known& a, const Known& b) {
    if (op == Op::Min || op == Op::Max) {
        const Range x = a.value_or(kAnything), y = b.value_or(kAnything);
        if (op == Op::Min) return Range{std::min(x.begin, y.begin), std::min(x.end, y.end)};
        return Range{std::max(x.begin, y.begin), std::max(x.end, y.end)};
    }
    if (op == Op::Mod && b && b->begin > 0) return Range{0, b->end - 1};
    return a && b && small(*a) && small(*b) ? of_small(op, *a, *b) : std::nullopt;
}

/// What a type holds.
Known of_type(DType type) {
    switch (type) {
        case DType::Bool:
            return Range{0, 2};
        case DType::U8:
            return Range{0, 256};
        case DType::I32:
            return Range{-(std::int64_t{1} << 31), std::int64_t{1} << 31};
        default:
            return std::nullopt;
    }
}

Known of_node(const Expr& expr, const ExprNode& node, const std::vector<Known>& known,
              const ValuesOfLoad& of_load) {
    const std::size_t count = node.args.size();
    const auto of = [&](std::size_t i) { return known[static_cast<std::size_t>(node.args[i])]; };
    if (node.type != DType::I64) return of_type(node.type);
    if (node.op == Op::Const) return small({node.integer, node.integer + (node.integer < kSmall ? 1 : 0)});
    if (node.op == Op::Index) return Range{0, std::int64_t{1} << 31};
    if (node.op == Op::Load) {
        const Access& access = expr.accesses[static_cast<std::size_t>(node.integer)];
        const Known loaded = of_load ? of_load(access) : std::nullopt;
        return loaded && access.map.masked() ? of_small(Op::Select, *loaded, {0, 1}) : loaded;
    }
    if (node.op == Op::Cast) return of(0);
    // Of a selection, its last two arguments.
    return count >= 2 ? of_two(node.op, of(count - 2), of(count - 1)) : std::nullopt;
}

}  // namespace

std::vector<Known> value_ranges(const Expr& expr, const ValuesOfLoad& of_load) {
    std::vector<Known> known;
    for (const ExprNode& node : expr.nodes) known.push_back(of_node(expr, node, known, of_load));
    return known;
}

}  // namespace stretto
