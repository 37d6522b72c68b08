#include "simplify/simplify.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/inline.h"
#include "simplify/live.h"
#include "simplify/selected_sums.h"

namespace stretto {
namespace {

/// Applies `change` to every expression of a node, with the shape of its iteration space's coordinates
/// unchanged.
template <class Change>
void change_expressions(Node& node, const Change& change) {
    if (auto* op = std::get_if<Pointwise>(&node.op)) {
        op->expr = change(op->expr);
    } else if (auto* reduce = std::get_if<Reduce>(&node.op)) {
        reduce->term = change(reduce->term);
    } else if (auto* attention = std::get_if<Attention>(&node.op)) {
        if (!attention->mask.empty()) attention->mask = change(attention->mask);
    } else if (auto* update = std::get_if<Update>(&node.op)) {
        if (update->indices.empty()) update->expr = change(update->expr);
    }
}

template <class Change>
void change_accesses(Node& node, const Change& change) {
    if (auto* contract = std::get_if<Contract>(&node.op)) {
        change(contract->a);
        change(contract->b);
        if (contract->ragged) {
            change(contract->ragged->begin);
            change(contract->ragged->end);
        }
    } else if (auto* attention = std::get_if<Attention>(&node.op)) {
        change(attention->query);
        change(attention->key);
        change(attention->value);
    }
}

/// Nothing but constants and coordinates, or one load with at most conversions around it: repeating it is
/// never more work than reading its result.
bool is_free(const Expr& expr) {
    int loads = 0;
    for (const ExprNode& node : expr.nodes) {
        if (node.op == Op::Load && (++loads > 1 || !node.args.empty())) return false;
        if (info(node.op).arity > 0 && node.op != Op::Cast) return false;
    }
    return true;
}

void inline_free_expressions(Graph& graph) {
    const auto producer_of = [&](std::int32_t source) -> std::optional<Producer> {
        const Node& node = graph[ValueId(source)];
        const auto* op = std::get_if<Pointwise>(&node.op);
        if (op == nullptr || !is_free(op->expr)) return std::nullopt;
        return Producer{&op->expr, node.type.shape};
    };
    for (Node& node : graph.nodes) {
        change_expressions(node, [&](const Expr& expr) {
            std::int32_t failed = -1;
            return inlined(expr, producer_of, &failed).value_or(expr);
        });
        change_accesses(node, [&](Access& access) {
            const auto producer = producer_of(access.source);
            if (!producer || producer->expr->nodes.back().op != Op::Load) return;
            const Access& inner = producer->expr->accesses.front();
            if (inner.type != access.type || !access.indirect.empty()) return;
            if (auto through = through_view(inner, access.map, producer->shape)) access = std::move(*through);
        });
    }
}

/// Rebuilds `graph` with nodes that repeat an earlier one, or that nothing needs, left out. Inputs stay: they
/// are the program's signature.
class Compaction {
public:
    explicit Compaction(const Graph& graph)
        : from_(graph), live_(live_values(graph)), renamed_(graph.nodes.size()) {}

    Graph run() {
        for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
            if (live_[i]) renamed_[i] = keep(i);
        }
        copy_outputs_and_constants(
            from_, [&](ValueId id) { return renamed_[id.index()]; }, to_);
        return std::move(to_);
    }

private:
    ValueId keep(std::size_t i) {
        Node node = from_.nodes[i];
        rename_operands(node, [&](ValueId id) { return renamed_[id.index()]; });
        auto& alike = by_operands_[{node.op.index(), operands(node)}];
        for (ValueId earlier : alike) {
            if (to_[earlier].type == node.type && to_[earlier].op == node.op &&
                !std::holds_alternative<Input>(node.op)) {
                return earlier;
            }
        }
        to_.nodes.push_back(std::move(node));
        const ValueId id(static_cast<std::int64_t>(to_.nodes.size()) - 1);
        alike.push_back(id);
        return id;
    }

    const Graph& from_;
    Graph to_;
    std::vector<bool> live_;
    std::vector<ValueId> renamed_;
    std::map<std::pair<std::size_t, std::vector<ValueId>>, std::vector<ValueId>> by_operands_;
};

}  // namespace

Graph simplify(const Graph& graph) {
    Graph result = graph;
    for (Node& node : result.nodes) change_expressions(node, [](const Expr& expr) { return folded(expr); });
    inline_free_expressions(result);
    replace_selected_sums(result);
    result = Compaction(result).run();
    check(result);
    return result;
}

}  // namespace stretto
