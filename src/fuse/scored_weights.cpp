#include "fuse/scored_weights.h"

#include <algorithm>
#include <optional>

#include "fuse/band.h"
#include "fuse/scored.h"

namespace stretto {
namespace {

/// Do all positions of a row, or all rows of a position, have the same value here, which is no constant?
bool is_shared(const Expr& expr, std::int32_t node) {
    const Expr value = extracted(expr, node);
    const auto has = [&](Op op) {
        return std::any_of(value.nodes.begin(), value.nodes.end(),
                           [&](const ExprNode& n) { return n.op == op; });
    };
    return has(Op::Load) && !has(Op::Acc) &&
           (!depends_on(expr, node, kScoredRow) || !depends_on(expr, node, kScoredContext));
}

Expr with_reciprocals(const Expr& expr) {
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const ExprNode& node = expr.nodes[i];
        if (node.op != Op::Div || node.type != DType::F32 || !is_shared(expr, node.args[1]))
            return std::nullopt;
        const std::int32_t divisor = copy_into(out, expr, node.args[1]);
        const std::int32_t reciprocal = out.apply(Op::Recip, DType::F32, {divisor});
        return out.apply(Op::Mul, DType::F32, {copy_into(out, expr, node.args[0]), reciprocal});
    });
}

/// a p - b p as (a - b) p.
Expr with_common_factors(const Expr& expr) {
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const auto node = [&](std::int32_t n) -> const ExprNode& {
            return expr.nodes[static_cast<std::size_t>(n)];
        };
        const ExprNode& difference = expr.nodes[i];
        const auto is = [&](const ExprNode& n, Op op) { return n.op == op && n.type == DType::F32; };
        if (!is(difference, Op::Sub)) return std::nullopt;
        const ExprNode& a = node(difference.args[0]);
        const ExprNode& b = node(difference.args[1]);
        if (!is(a, Op::Mul) || !is(b, Op::Mul)) return std::nullopt;
        for (const std::size_t of_a : {0, 1}) {
            for (const std::size_t of_b : {0, 1}) {
                if (a.args[of_a] != b.args[of_b]) continue;
                const std::int32_t rest = out.apply(
                    Op::Sub, DType::F32,
                    {copy_into(out, expr, a.args[1 - of_a]), copy_into(out, expr, b.args[1 - of_b])});
                return out.apply(Op::Mul, DType::F32, {rest, copy_into(out, expr, a.args[of_a])});
            }
        }
        return std::nullopt;
    });
}

template <class Changed>
ScoredWeights together(const ScoredRegion& region, const Changed& changed) {
    ScoredWeights all;
    for (const ScoredSum& sum : region.sums) {
        const Expr weight = changed(sum.weight);
        all.nodes.push_back(copy_into(all.expr, weight, weight.root()));
    }
    return all;
}

}  // namespace

ScoredWeights weights_of(const ScoredRegion& region) {
    return together(region, [](const Expr& weight) -> const Expr& { return weight; });
}

ScoredWeights quick_weights(const ScoredRegion& region, bool within) {
    const Shape space(region.space.begin(), region.space.end());
    return together(region, [&](const Expr& weight) {
        return with_common_factors(
            with_reciprocals(within ? within_band(weight, region.band, space) : weight));
    });
}

}  // namespace stretto
