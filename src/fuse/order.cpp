#include "fuse/order.h"

#include <algorithm>
#include <queue>
#include <set>

#include "base/error.h"

namespace stretto {
namespace {

/// An Update may read the state that it writes where each element is computed from itself alone.
bool reads_only_what_it_writes(const Region& region, ValueId state, ValueId update) {
    const auto* map = std::get_if<MapRegion>(&region.body);
    const auto all = uses(region);
    const auto target = std::find_if(all.begin(), all.end(), [&](const Use& use) {
        return use.write && use.access->source == update.value;
    });
    return std::all_of(all.begin(), all.end(), [&](const Use& use) {
        if (use.write || use.access->source != state.value) return true;
        return map != nullptr && use.access->indirect.empty() && target->access->indirect.empty() &&
               use.access->map == target->access->map;
    });
}

/// Is `value` computed from another value's accumulator?
bool is_epilogue(const Graph& graph, const DraftRegion& draft, ValueId value) {
    return draft.values.size() > 1 && std::holds_alternative<Pointwise>(graph[value].op);
}

}  // namespace

std::optional<std::vector<std::size_t>> program_order(const Graph& graph,
                                                      const std::vector<DraftRegion>& drafts,
                                                      UpdateProblem* problem) {
    constexpr std::size_t kNobody = static_cast<std::size_t>(-1);
    std::vector<std::size_t> writer(graph.nodes.size(), kNobody);
    std::vector<std::vector<std::size_t>> readers(graph.nodes.size());
    for (std::size_t r = 0; r < drafts.size(); ++r) {
        for (ValueId value : drafts[r].values) writer[value.index()] = r;
        std::set<std::int32_t> sources;
        for (const Use& use : uses(drafts[r].region)) {
            if (!use.write) sources.insert(use.access->source);
        }
        for (std::int32_t source : sources) readers[static_cast<std::size_t>(source)].push_back(r);
    }

    std::vector<std::set<std::size_t>> after(drafts.size());
    const auto edge = [&](std::size_t from, std::size_t to) {
        if (from != kNobody && from != to) after[from].insert(to);
    };
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
        for (std::size_t reader : readers[v]) edge(writer[v], reader);
        const auto* op = std::get_if<Update>(&graph.nodes[v].op);
        if (op == nullptr || writer[v] == kNobody) continue;
        edge(writer[op->state.index()], writer[v]);
        for (std::size_t reader : readers[op->state.index()]) {
            edge(reader, writer[v]);
            const ValueId id(static_cast<std::int64_t>(v));
            if (reader == writer[v] && !reads_only_what_it_writes(drafts[reader].region, op->state, id)) {
                *problem = {id, true};
                return std::nullopt;
            }
        }
    }

    std::vector<std::size_t> open(drafts.size(), 0);
    for (const auto& targets : after) {
        for (std::size_t to : targets) ++open[to];
    }
    const auto later = [&](std::size_t a, std::size_t b) {
        return drafts[a].values.back() > drafts[b].values.back();
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> ready(later);
    for (std::size_t r = 0; r < drafts.size(); ++r) {
        if (open[r] == 0) ready.push(r);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
        const std::size_t r = ready.top();
        ready.pop();
        order.push_back(r);
        for (std::size_t to : after[r]) {
            if (--open[to] == 0) ready.push(to);
        }
    }
    if (order.size() == drafts.size()) return order;
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
        const bool stuck = writer[v] != kNobody && open[writer[v]] > 0;
        if (stuck && std::holds_alternative<Update>(graph.nodes[v].op)) {
            *problem = {ValueId(static_cast<std::int64_t>(v)), false};
            return std::nullopt;
        }
    }
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
        const bool stuck = writer[v] != kNobody && open[writer[v]] > 0;
        if (stuck && is_epilogue(graph, drafts[writer[v]], ValueId(static_cast<std::int64_t>(v)))) {
            throw NotAnEpilogue{ValueId(static_cast<std::int64_t>(v))};
        }
    }
    throw InternalError("regions depend on each other in a circle");
}

}  // namespace stretto
