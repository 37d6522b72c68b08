#include "fuse/crowding.h"

#include <algorithm>
#include <set>

#include "abi/abi.h"

namespace stretto {
namespace {

/// An Update's value lives in the buffer of its state.
ValueId home(const Graph& graph, ValueId value) {
    while (const auto* update = std::get_if<Update>(&graph[value].op)) value = update->state;
    return value;
}

bool is_crowded(const Graph& graph, const DraftRegion& draft) {
    std::set<ValueId> buffers;
    for (const Use& use : uses(draft.region)) buffers.insert(home(graph, ValueId(use.access->source)));
    return buffers.size() > abi::kMaxOperands;
}

}  // namespace

std::vector<ValueId> crowded_values(const Graph& graph, const Decisions& decisions,
                                    const std::vector<DraftRegion>& drafts) {
    const bool crowded = std::any_of(drafts.begin(), drafts.end(),
                                     [&](const DraftRegion& draft) { return is_crowded(graph, draft); });
    if (!crowded) return {};
    // A region joins a few expressions and adds its own weights and stores: half of the room is for each.
    constexpr std::size_t kMostBehindOne = abi::kMaxOperands / 2;
    std::vector<std::set<ValueId>> behind(graph.nodes.size());
    std::vector<ValueId> stored;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const ValueId id(static_cast<std::int64_t>(i));
        if (decisions.of(id) != Decisions::Way::Inline) {
            behind[i] = {home(graph, id)};
            continue;
        }
        for (ValueId operand : operands(graph[id])) {
            behind[i].insert(behind[operand.index()].begin(), behind[operand.index()].end());
        }
        if (behind[i].size() <= kMostBehindOne || !std::holds_alternative<Pointwise>(graph[id].op)) continue;
        stored.push_back(id);
        behind[i] = {id};
    }
    return stored;
}

}  // namespace stretto
