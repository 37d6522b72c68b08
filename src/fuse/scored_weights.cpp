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

/// exp((c ? x : k) - m), where all share m and k is constant, as c ? exp(x - m) : exp(k - m), which they share as well.
Expr with_shared_exponentials(const Expr& expr) {
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const auto node = [&](std::int32_t n) -> const ExprNode& {
            return expr.nodes[static_cast<std::size_t>(n)];
        };
        if (expr.nodes[i].op != Op::Exp) return std::nullopt;
        const ExprNode& difference = node(expr.nodes[i].args[0]);
        if (difference.op != Op::Sub || !is_shared(expr, difference.args[1])) return std::nullopt;
        const ExprNode& select = node(difference.args[0]);
        if (select.op != Op::Select || node(select.args[2]).op != Op::Const) return std::nullopt;
        const std::int32_t less = copy_into(out, expr, difference.args[1]);
        const auto exponential = [&](std::int32_t x) {
            const std::int32_t exponent =
                out.apply(Op::Sub, difference.type, {copy_into(out, expr, x), less});
            return out.apply(Op::Exp, expr.nodes[i].type, {exponent});
        };
        const std::int32_t condition = copy_into(out, expr, select.args[0]);
        const std::int32_t seen = exponential(select.args[1]);
        return out.apply(Op::Select, expr.nodes[i].type, {condition, seen, exponential(select.args[2])});
    });
}

/// (c ? x : 0) k of a constant k as c ? x k : 0.
Expr with_selects_outside(const Expr& expr) {
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const auto node = [&](std::int32_t n) -> const ExprNode& {
            return expr.nodes[static_cast<std::size_t>(n)];
        };
        const ExprNode& product = expr.nodes[i];
        if (product.op != Op::Mul || product.type != DType::F32) return std::nullopt;
        for (const std::size_t factor : {0, 1}) {
            const ExprNode& select = node(product.args[1 - factor]);
            if (node(product.args[factor]).op != Op::Const || select.op != Op::Select) continue;
            const ExprNode& otherwise = node(select.args[2]);
            if (otherwise.op != Op::Const || otherwise.value != 0 || select.type != DType::F32) continue;
            const std::int32_t k = copy_into(out, expr, product.args[factor]);
            const std::int32_t condition = copy_into(out, expr, select.args[0]);
            const std::int32_t seen =
                out.apply(Op::Mul, DType::F32, {copy_into(out, expr, select.args[1]), k});
            return out.apply(Op::Select, DType::F32, {condition, seen, copy_into(out, expr, select.args[2])});
        }
        return std::nullopt;
    });
}

/// (a - b) p k, where all share b and k is constant, as (a k - b k) p.
Expr with_factors_inside(const Expr& expr) {
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const auto node = [&](std::int32_t n) -> const ExprNode& {
            return expr.nodes[static_cast<std::size_t>(n)];
        };
        const auto is = [&](std::int32_t n, Op op) { return node(n).op == op && node(n).type == DType::F32; };
        if (!is(static_cast<std::int32_t>(i), Op::Mul)) return std::nullopt;
        const auto& outer = expr.nodes[i].args;
        for (const std::size_t of_outer : {0, 1}) {
            if (!is(outer[of_outer], Op::Const) || !is(outer[1 - of_outer], Op::Mul)) continue;
            const auto& inner = node(outer[1 - of_outer]).args;
            for (const std::size_t of_inner : {0, 1}) {
                if (!is(inner[of_inner], Op::Sub)) continue;
                const auto& difference = node(inner[of_inner]).args;
                if (!is_shared(expr, difference[1])) continue;
                const auto times = [&](std::int32_t x) {
                    const std::int32_t factor = copy_into(out, expr, outer[of_outer]);
                    return out.apply(Op::Mul, DType::F32, {copy_into(out, expr, x), factor});
                };
                const std::int32_t a = times(difference[0]);
                const std::int32_t scaled = out.apply(Op::Sub, DType::F32, {a, times(difference[1])});
                return out.apply(Op::Mul, DType::F32, {scaled, copy_into(out, expr, inner[1 - of_inner])});
            }
        }
        return std::nullopt;
    });
}

}  // namespace

ScoredWeights quick_weights(const ScoredRegion& region, bool within) {
    const Shape space(region.space.begin(), region.space.end());
    ScoredWeights all;
    for (const ScoredSum& sum : region.sums) {
        Expr quick = within ? within_band(sum.weight, region.band, space) : sum.weight;
        for (const auto rewrite : {with_shared_exponentials, with_reciprocals, with_common_factors,
                                   with_selects_outside, with_factors_inside})
            quick = rewrite(quick);
        all.nodes.push_back(copy_into(all.expr, quick, quick.root()));
    }
    return all;
}

}  // namespace stretto
