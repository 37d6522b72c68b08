#include "fuse/fresh.h"

#include <optional>
#include <vector>

#include "graph/inline.h"

namespace stretto {
namespace {

/// What an operand of an attention reads: the state before the update, and the row that the update gives.
struct Operand {
    Access old;
    Expr row;      ///< over the operand's coordinates (b, h, s, d)
    Expr element;  ///< as `row`
};

/// From coordinates of the state to positions of an update that writes one row along one dimension of it, whole in all
/// others; nothing where an update does anything else. The written dimension moves no position.
std::optional<IndexMap> positions(const Update& update, const Shape& state) {
    if (update.target.indirect.size() != 1 || update.target.map.offset != 0 || update.target.map.masked()) {
        return std::nullopt;
    }
    const Shape strides = row_major_strides(state);
    IndexMap result;
    std::size_t open = 0;  // dimensions of the state that no digit of the update writes yet
    for (std::size_t d = 0; d < state.size(); ++d) {
        const Access::Indirect row = update.target.indirect.front();
        const bool written = state[d] > 1 && row == Access::Indirect{strides[d], state[d]};
        result.dims.push_back({atom(state[d], 0)});
        if (state[d] > 1 && !written) ++open;
    }
    const Shape space_strides = row_major_strides(update.space);
    const IndexMap target = normalized(update.target.map);
    for (std::size_t u = 0; u < target.dims.size(); ++u) {
        std::int64_t weight = space_strides[u];
        for (std::size_t i = target.dims[u].size(); i-- > 0; weight *= target.dims[u][i].extent) {
            const Atom& digit = target.dims[u][i];
            if (digit.extent == 1) continue;
            std::size_t d = 0;
            while (d < state.size() && (strides[d] != digit.stride || state[d] != digit.extent)) ++d;
            if (d == state.size() || result.dims[d].front().stride != 0) return std::nullopt;
            result.dims[d].front().stride = weight;
            --open;
        }
    }
    if (open != 0) return std::nullopt;
    return result;
}

std::optional<Operand> operand_of(const Graph& graph, const Access& access) {
    const auto* update = std::get_if<Update>(&graph[ValueId(access.source)].op);
    if (update == nullptr) return std::nullopt;
    const Shape& state = graph[update->state].type.shape;
    const auto map = positions(*update, state);
    if (!map) return std::nullopt;
    const auto view = composed(access.map, state, *map);
    if (!view) return std::nullopt;
    auto row = through_view(extracted(update->expr, update->indices.front()), *view, update->space);
    auto element = through_view(extracted(update->expr, update->expr.root()), *view, update->space);
    if (!row || !element || is_float(row->type())) return std::nullopt;
    for (std::size_t d = 1; d < 4; ++d) {
        if (access.map.shape()[d] > 1 && depends_on(*row, row->root(), d)) return std::nullopt;
    }
    Access old = access;
    old.source = update->state.value;
    return Operand{std::move(old), std::move(*row), std::move(*element)};
}

/// Does every attention, and nothing else, read the value as keys or values only?
std::vector<bool> read_by_attention_alone(const Graph& graph) {
    std::vector<bool> alone(graph.nodes.size(), true);
    for (const Node& node : graph.nodes) {
        const auto* attention = std::get_if<Attention>(&node.op);
        for (ValueId operand : operands(node)) {
            const bool raw = attention != nullptr && (attention->key.source == operand.value ||
                                                      attention->value.source == operand.value);
            if (!raw || attention->query.source == operand.value) alone[operand.index()] = false;
        }
    }
    return alone;
}

}  // namespace

Graph with_fresh_rows(Graph graph) {
    const std::vector<bool> alone = read_by_attention_alone(graph);
    for (Node& node : graph.nodes) {
        auto* attention = std::get_if<Attention>(&node.op);
        if (attention == nullptr) continue;
        const auto find = [&](const Access& access) {
            return alone[static_cast<std::size_t>(access.source)] ? operand_of(graph, access) : std::nullopt;
        };
        auto key = find(attention->key);
        auto value = find(attention->value);
        if (key && value && key->row != value->row) value.reset();
        if (!key && !value) continue;
        attention->fresh.row = key ? key->row : value->row;
        if (key) {
            attention->key = key->old;
            attention->fresh.key = std::move(key->element);
        }
        if (value) {
            attention->value = value->old;
            attention->fresh.value = std::move(value->element);
        }
    }
    return graph;
}

}  // namespace stretto
