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

/// A region joins a few expressions and adds its own weights and stores: half of the room is for each.
constexpr std::size_t kMostBehindOne = abi::kMaxOperands / 2;

/// The buffers behind each inlined value, or the value itself where it is stored.
using Behind = std::vector<std::set<ValueId>>;

std::set<ValueId> behind_operands(const Graph& graph, const Behind& behind, ValueId id) {
    std::set<ValueId> all;
    for (ValueId operand : operands(graph[id]))
        all.insert(behind[operand.index()].begin(), behind[operand.index()].end());
    return all;
}

/// What the value is made of, that of the most buffers first.
std::vector<ValueId> most_behind_first(const Graph& graph, const Behind& behind, ValueId id) {
    std::vector<ValueId> read = operands(graph[id]);
    std::stable_sort(read.begin(), read.end(), [&](ValueId a, ValueId b) {
        return behind[a.index()].size() > behind[b.index()].size();
    });
    return read;
}

/// Values to store so that regions of the crowd read less. A value of theirs that has more than `most` buffers behind its
/// operands gets the largest ones stored.
std::vector<ValueId> stored_for(const Graph& graph, const Decisions& decisions,
                                const std::vector<bool>& in_crowd, std::size_t most) {
    Behind behind(graph.nodes.size());
    std::vector<ValueId> stored;
    const auto elements = [&](ValueId id) { return volume(graph[id].type.shape); };
    const auto can_be_stored = [&](ValueId id) {
        return behind[id.index()].size() > 1 && std::holds_alternative<Pointwise>(graph[id].op);
    };
    const auto store = [&](ValueId id) {
        stored.push_back(id);
        behind[id.index()] = {id};
    };
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const ValueId id(static_cast<std::int64_t>(i));
        const bool is_inline = decisions.of(id) == Decisions::Way::Inline;
        if (is_inline) {
            behind[i] = behind_operands(graph, behind, id);
            if (!std::holds_alternative<Pointwise>(graph[id].op)) continue;
            // An outer product, say, has more elements than what it is made of.
            for (ValueId operand : most_behind_first(graph, behind, id)) {
                if (behind[i].size() <= kMostBehindOne) break;
                if (!can_be_stored(operand) || elements(operand) >= elements(id)) continue;
                store(operand);
                behind[i] = behind_operands(graph, behind, id);
            }
            if (behind[i].size() > kMostBehindOne) store(id);
            continue;
        }
        if (in_crowd[i]) {
            // The region's own value is stored anyway: what it reads of the most buffers is stored as well.
            for (ValueId operand : most_behind_first(graph, behind, id)) {
                if (can_be_stored(operand) && behind_operands(graph, behind, id).size() > most)
                    store(operand);
            }
        }
        behind[i] = {home(graph, id)};
    }
    return stored;
}

}  // namespace

std::vector<ValueId> crowded_values(const Graph& graph, const Decisions& decisions,
                                    const std::vector<DraftRegion>& drafts) {
    std::vector<bool> in_crowd(graph.nodes.size(), false);
    bool crowded = false;
    for (const DraftRegion& draft : drafts) {
        if (!is_crowded(graph, draft)) continue;
        crowded = true;
        for (ValueId value : draft.values) in_crowd[value.index()] = true;
    }
    if (!crowded) return {};
    // A product with several stores has room for less than half of it in each.
    for (std::size_t most = kMostBehindOne; most > 0; most /= 2) {
        std::vector<ValueId> stored = stored_for(graph, decisions, in_crowd, most);
        if (!stored.empty()) return stored;
    }
    return {};
}

}  // namespace stretto
