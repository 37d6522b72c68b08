#include "fuse/expand.h"

#include "graph/inline.h"

namespace stretto {

Expansion::Expansion(const Graph& graph, const Decisions& decisions)
    : graph_(graph), decisions_(decisions), pointwise_(graph.nodes.size()), reductions_(graph.nodes.size()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const ValueId id(static_cast<std::int64_t>(i));
        if (decisions.of(id) != Decisions::Way::Inline) continue;
        if (const auto* op = std::get_if<Pointwise>(&graph[id].op)) {
            pointwise_[i] = expanded(op->expr);
        } else if (const auto* reduce = std::get_if<Reduce>(&graph[id].op)) {
            reductions_[i] = {reduce, expanded(reduce->term), graph[id].type.shape};
        }
    }
}

Expr Expansion::expanded(const Expr& expr) const {
    const auto producer_of = [&](std::int32_t source) -> std::optional<Producer> {
        const auto i = static_cast<std::size_t>(source);
        if (pointwise_[i].empty()) return std::nullopt;
        return Producer{&pointwise_[i], graph_.nodes[i].type.shape};
    };
    std::int32_t failed = -1;
    auto result = inlined(expr, producer_of, &failed);
    if (!result) throw Inexpressible{failed};
    return std::move(*result);
}

Expr Expansion::expanded(const Access& access) const {
    Expr expr;
    expr.load(access);
    return expanded(expr);
}

const InlineReduction* Expansion::reduction(std::int32_t source) const {
    const InlineReduction& found = reductions_[static_cast<std::size_t>(source)];
    return found.reduce != nullptr ? &found : nullptr;
}

}  // namespace stretto
