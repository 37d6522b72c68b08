#include "simplify/live.h"

#include <utility>

namespace stretto {

std::vector<bool> live_values(const Graph& graph) {
    std::vector<bool> live(graph.nodes.size(), false);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const auto* input = std::get_if<Input>(&graph.nodes[i].op);
        live[i] = input != nullptr && input->role != Role::Constant;
    }
    for (const Output& output : graph.outputs) live[output.value.index()] = true;
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
        if (!live[i]) continue;
        for (ValueId operand : operands(graph.nodes[i])) live[operand.index()] = true;
    }
    return live;
}

Graph without_dead_values(const Graph& graph) {
    const std::vector<bool> live = live_values(graph);
    std::vector<ValueId> renamed(graph.nodes.size());
    Graph result;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        if (!live[i]) continue;
        Node node = graph.nodes[i];
        rename_operands(node, [&](ValueId id) { return renamed[id.index()]; });
        renamed[i] = ValueId(static_cast<std::int64_t>(result.nodes.size()));
        result.nodes.push_back(std::move(node));
    }
    copy_outputs_and_constants(
        graph, [&](ValueId id) { return renamed[id.index()]; }, result);
    return result;
}

}  // namespace stretto
