#include "graph/value_range.h"

#include <algorithm>
#include <bit>

namespace stretto {
namespace {

using Known = std::optional<Range>;

/// Sums of a few of these are exact.
constexpr std::int64_t kSmall = std::int64_t{1} << 40;

Known small(Range range) { return range.begin > -kSmall && range.end < kSmall ? Known(range) : std::nullopt; }

/// The bits of neither number go beyond those of the larger one.
Known of_bits(Range a, Range b) {
    if (a.begin < 0 || b.begin < 0) return std::nullopt;
    const auto highest = static_cast<std::uint64_t>(std::max(a.end, b.end) - 1);
    return small({std::max(a.begin, b.begin), static_cast<std::int64_t>(std::bit_ceil(highest + 1))});
}

Known of_two(Op op, Range a, Range b) {
    switch (op) {
        case Op::Add:
            return small({a.begin + b.begin, a.end + b.end - 1});
        case Op::Sub:
            return small({a.begin - b.end + 1, a.end - b.begin});
        case Op::Min:
            return Range{std::min(a.begin, b.begin), std::min(a.end, b.end)};
        case Op::Max:
            return Range{std::max(a.begin, b.begin), std::max(a.end, b.end)};
        case Op::BitOr:
            return of_bits(a, b);
        case Op::FloorDiv:
            if (a.begin < 0 || b.begin < 1) return std::nullopt;
            return Range{a.begin / (b.end - 1), (a.end - 1) / b.begin + 1};
        case Op::Mod:
            if (a.begin < 0 || b.begin < 1) return std::nullopt;
            return Range{0, std::min(a.end, b.end - 1)};
        case Op::Select:
            return Range{std::min(a.begin, b.begin), std::max(a.end, b.end)};
        default:
            return std::nullopt;
    }
}

}  // namespace

std::vector<Known> value_ranges(const Expr& expr) {
    std::vector<Known> known;
    for (const ExprNode& node : expr.nodes) {
        Known now;
        const std::size_t count = node.args.size();
        const auto of = [&](std::size_t i) { return known[static_cast<std::size_t>(node.args[i])]; };
        // Of a selection, its last two arguments. Narrower integers wrap around.
        if (node.type == DType::I64 && node.op == Op::Const) {
            if (node.integer > -kSmall && node.integer < kSmall) now = Range{node.integer, node.integer + 1};
        } else if (node.op == Op::Index) {
            now = Range{0, std::int64_t{1} << 31};
        } else if (node.type == DType::I64 && node.op != Op::Load && count >= 2) {
            if (of(count - 2) && of(count - 1)) now = of_two(node.op, *of(count - 2), *of(count - 1));
        }
        known.push_back(now);
    }
    return known;
}

}  // namespace stretto
