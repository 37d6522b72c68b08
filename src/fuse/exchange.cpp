#include "fuse/exchange.h"

#include <algorithm>
#include <optional>

#include "fuse/factors.h"
#include "fuse/scale.h"
#include "fuse/scored.h"
#include "fuse/touches.h"

namespace stretto {
namespace {

/// Over [b, r, e] instead, where e goes along dimension `last`.
Access of_depth(Access access, std::size_t last) {
    auto& dims = access.map.dims;
    dims = {dims[0], dims[1], dims[last]};
    return access;
}

bool is_score(const Expr& factor, std::size_t number) {
    return factor.nodes.size() == 1 && factor.nodes.front().op == Op::Acc &&
           factor.nodes.front().integer == static_cast<std::int64_t>(number);
}

bool holds_score(const Expr& expr, std::size_t number) {
    return std::any_of(expr.nodes.begin(), expr.nodes.end(), [&](const ExprNode& node) {
        return node.op == Op::Acc && node.integer == static_cast<std::int64_t>(number);
    });
}

class Exchanger {
public:
    explicit Exchanger(RegionGraph& graph) : graph_(graph), touches_(graph) {}

    void run() {
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            const auto* sum = std::get_if<ScoredRegion>(&graph_.regions[r].body);
            if (sum == nullptr || sum->sums.front().factor || sum->op != ReduceOp::Sum) continue;
            auto reduction = exchanged(r, *sum);
            if (!reduction) continue;
            graph_.regions[r].body = std::move(*reduction);
            touches_.update(r);
        }
    }

private:
    [[nodiscard]] std::optional<ReduceRegion> exchanged(std::size_t r, const ScoredRegion& sum) const {
        const Factors factors = factors_of(one_column(sum.sums.front().weight));
        for (std::size_t j = 0; j < sum.scores.size(); ++j) {
            Factors rest = factors;
            const auto score = std::find_if(rest.others.begin(), rest.others.end(),
                                            [&](const Expr& factor) { return is_score(factor, j); });
            if (score == rest.others.end()) continue;
            rest.others.erase(score);
            const bool linear = std::none_of(rest.others.begin(), rest.others.end(),
                                             [&](const Expr& factor) { return holds_score(factor, j); });
            if (!linear) continue;
            for (std::size_t m = 0; m < r; ++m) {
                const auto* mix = std::get_if<ScoredRegion>(&graph_.regions[m].body);
                if (mix == nullptr || !mixes(*mix, sum, j)) continue;
                const auto scale = quotient(rest, *mix, sum);
                const Store* store = scale ? stored_mix(m, *mix, r) : nullptr;
                if (store == nullptr) continue;
                if (auto reduction = reduced(sum, j, store->target, *scale)) return reduction;
            }
        }
        return std::nullopt;
    }

    /// Does the region sum the right side of score j, over the same rows and positions?
    static bool mixes(const ScoredRegion& mix, const ScoredRegion& sum, std::size_t j) {
        const auto& mixed = mix.sums.front().factor;
        if (!mixed || mix.softmax || mix.space[kScoredColumn] != sum.space[kScoredDepth] ||
            mix.space[0] != sum.space[0] || mix.space[1] != sum.space[1] ||
            mix.space[kScoredContext] != sum.space[kScoredContext])
            return false;
        return as_right_side(*mixed) == one_column(sum.scores[j].right);
    }

    /// What the weights of the mix have to be multiplied with to be `rest`; nothing where that varies with the position.
    static std::optional<Factors> quotient(Factors rest, const ScoredRegion& mix, const ScoredRegion& sum) {
        std::vector<std::size_t> number;  // in `sum`, of each score of the mix
        for (const Score& score : mix.scores) {
            const auto found = std::find_if(sum.scores.begin(), sum.scores.end(),
                                            [&](const Score& other) { return is_same(score, other); });
            if (found == sum.scores.end()) return std::nullopt;
            number.push_back(static_cast<std::size_t>(found - sum.scores.begin()));
        }
        const Expr weight = one_column(mix.sums.front().weight);
        const Factors weights =
            factors_of(rewritten(weight, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
                const ExprNode& node = weight.nodes[i];
                if (node.op != Op::Acc) return std::nullopt;
                return out.acc(static_cast<int>(number[static_cast<std::size_t>(node.integer)]), node.type);
            }));
        if (weights.constant == 0 || !take_out(rest.others, weights.others)) return std::nullopt;
        const bool of_rows = std::all_of(rest.others.begin(), rest.others.end(), [](const Expr& factor) {
            const bool has_scores = std::any_of(factor.nodes.begin(), factor.nodes.end(),
                                                [](const ExprNode& node) { return node.op == Op::Acc; });
            return !has_scores && factor.type() == DType::F32 &&
                   !depends_on(factor, factor.root(), kScoredContext);
        });
        if (!of_rows) return std::nullopt;
        rest.constant /= weights.constant;
        return rest;
    }

    /// The store of the mix as it is that nothing changes before region r; nullptr where there is none.
    [[nodiscard]] const Store* stored_mix(std::size_t m, const ScoredRegion& mix, std::size_t r) const {
        const auto found = std::find_if(mix.stores.begin(), mix.stores.end(), [&](const Store& store) {
            return store.expr.nodes.size() == 1 && store.expr.nodes.front().op == Op::Acc &&
                   is_float(store.target.type) && is_injective(of_depth(store.target, kScoredColumn)) &&
                   touches_.last_writer(store.target.source, r) == m;
        });
        return found == mix.stores.end() ? nullptr : &*found;
    }

    /// The sum over e of left * mix * scale over [b, r, e], with the stores of `sum`.
    static std::optional<ReduceRegion> reduced(const ScoredRegion& sum, std::size_t j, const Access& mix,
                                               const Factors& scale) {
        const auto of_row = [&](Access access) {
            auto& dims = access.map.dims;
            dims = {dims[0], dims[1], {atom(sum.space[kScoredDepth], 0)}};
            return access;
        };
        ReduceRegion region;
        region.space = {sum.space[0], sum.space[1], sum.space[kScoredDepth]};
        region.kept = 2;
        Expr& term = region.reductions.emplace_back().term;
        const std::int32_t left = term.load(of_depth(sum.scores[j].left, kScoredDepth));
        const std::int32_t right = term.load(of_depth(mix, kScoredColumn));
        term.apply(Op::Mul, DType::F32, {left, right});
        const Expr factor = product_of(scale);
        const bool scaled = !scale.others.empty() || scale.constant != 1;
        for (Store store : sum.stores) {
            const bool plain = store.indices.empty() && store.target.indirect.empty();
            if (!plain || depends_on(store.expr, store.expr.root(), kScoredColumn)) return std::nullopt;
            if (scaled) store.expr = with_scale(store.expr, factor);
            for (Access& access : store.expr.accesses) access = of_row(std::move(access));
            store.target = of_row(std::move(store.target));
            region.stores.push_back(std::move(store));
        }
        return region;
    }

    RegionGraph& graph_;
    Touches touches_;
};

}  // namespace

void exchange_sums(RegionGraph& graph) { Exchanger(graph).run(); }

}  // namespace stretto
