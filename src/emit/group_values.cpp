#include "emit/group_values.h"

#include <algorithm>

namespace stretto {
namespace {

/// Node `node` of `expr`, of whose arguments the first `Counts` and the others are constants, or the other way around.
InGroup counted_way(const Expr& expr, const ExprNode& node, bool first, std::int64_t count) {
    const ExprNode& other = expr.nodes[static_cast<std::size_t>(node.args[first ? 1 : 0])];
    if (is_float(node.type) || is_float(other.type)) return InGroup::Other;
    if (other.op != Op::Const || other.integer % count != 0) return InGroup::Other;
    switch (node.op) {
        case Op::Add:
            return InGroup::Counts;
        case Op::Sub:
        case Op::Mod:
            return first && (node.op == Op::Sub || other.integer > 0) ? InGroup::Counts : InGroup::Other;
        case Op::FloorDiv:
            return first && other.integer > 0 ? InGroup::Same : InGroup::Other;
        // A whole group lies before a multiple of its length, or from it on.
        case Op::Lt:
            return first ? InGroup::Same : InGroup::Other;
        case Op::Le:
            return first ? InGroup::Other : InGroup::Same;
        default:
            return InGroup::Other;
    }
}

}  // namespace

std::vector<InGroup> ways_in_groups(const Expr& expr, std::size_t dim, std::int64_t count,
                                    const std::set<std::size_t>& same) {
    std::vector<InGroup> ways;
    for (const ExprNode& node : expr.nodes) {
        const auto way_of = [&](std::size_t i) { return ways[static_cast<std::size_t>(node.args[i])]; };
        const auto all_same = [&] {
            return std::all_of(node.args.begin(), node.args.end(), [&](std::int32_t arg) {
                return ways[static_cast<std::size_t>(arg)] == InGroup::Same;
            });
        };
        InGroup way = InGroup::Other;
        if (node.op == Op::Const || same.count(ways.size()) > 0) {
            way = InGroup::Same;
        } else if (node.op == Op::Index) {
            way = node.integer == static_cast<std::int64_t>(dim) ? InGroup::Counts : InGroup::Same;
        } else if (!node.args.empty() && node.op != Op::Load) {
            if (all_same()) {
                way = InGroup::Same;
            } else if (node.args.size() == 2 && way_of(0) == InGroup::Counts && way_of(1) == InGroup::Same) {
                way = counted_way(expr, node, true, count);
            } else if (node.args.size() == 2 && way_of(1) == InGroup::Counts && way_of(0) == InGroup::Same) {
                way = counted_way(expr, node, false, count);
            }
        }
        ways.push_back(way);
    }
    return ways;
}

}  // namespace stretto
