#include "fuse/order.h"

#include <algorithm>
#include <queue>
#include <set>

#include "base/error.h"
#include "fuse/product_kind.h"

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

/// Does the update write every element of its state, each at its own place?
bool is_whole(const Graph& graph, const Update& update) {
    const Shape& shape = graph[update.state].type.shape;
    return update.indices.empty() && update.space == shape &&
           normalized(update.target.map) == normalized(identity_map(shape));
}

using Edges = std::vector<std::set<std::size_t>>;

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

/// Who waits for whom among the regions.
struct Waits {
    std::vector<std::size_t> writer;                ///< of each value, or kNobody
    std::vector<std::vector<std::size_t>> readers;  ///< of each value
    Edges data;                                     ///< regions that read what each region writes
    Edges after;                                    ///< regions that come after each region for any reason
};

void add_edge(Edges& after, std::size_t from, std::size_t to) {
    if (from != kNobody && from != to) after[from].insert(to);
}

Waits waits_of(const Graph& graph, const std::vector<DraftRegion>& drafts,
               std::vector<UpdateProblem>& problems) {
    Waits waits{std::vector<std::size_t>(graph.nodes.size(), kNobody),
                std::vector<std::vector<std::size_t>>(graph.nodes.size()),
                Edges(drafts.size()),
                {}};
    for (std::size_t r = 0; r < drafts.size(); ++r) {
        for (ValueId value : drafts[r].values) waits.writer[value.index()] = r;
        std::set<std::int32_t> sources;
        for (const Use& use : uses(drafts[r].region)) {
            if (!use.write) sources.insert(use.access->source);
        }
        for (std::int32_t source : sources) waits.readers[static_cast<std::size_t>(source)].push_back(r);
    }
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
        for (std::size_t reader : waits.readers[v]) add_edge(waits.data, waits.writer[v], reader);
    }
    waits.after = waits.data;
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
        const auto* op = std::get_if<Update>(&graph.nodes[v].op);
        const std::size_t writer = waits.writer[v];
        if (op == nullptr || writer == kNobody) continue;
        add_edge(waits.after, waits.writer[op->state.index()], writer);
        for (std::size_t reader : waits.readers[op->state.index()]) {
            add_edge(waits.after, reader, writer);
            const ValueId id(static_cast<std::int64_t>(v));
            if (reader == writer && !reads_only_what_it_writes(drafts[reader].region, op->state, id)) {
                problems.push_back({id, true});
            }
        }
    }
    return waits;
}

/// Regions in order, the one of the smallest value first; shorter than `drafts` where there are circles.
std::vector<std::size_t> sorted(const Edges& after, const std::vector<DraftRegion>& drafts) {
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
    return order;
}

/// Most elements that a region may write to be put off: until then, what it reads keeps its bytes.
constexpr std::int64_t kMostPutOff = 1 << 16;

/// A task that nobody waits for still keeps the next task of its worker waiting. So what only updates a little state goes
/// before the last product that streams weights: while a worker runs it, its ring fills up.
std::vector<std::size_t> put_off_updates(const std::vector<DraftRegion>& drafts, const Edges& after,
                                         const std::vector<std::size_t>& order) {
    const auto streams = [&](std::size_t r) { return streamed_product(drafts[r].region.body) != nullptr; };
    const auto last = std::find_if(order.rbegin(), order.rend(), streams);
    if (last == order.rend()) return order;
    const auto can_wait = [&](std::size_t r) {
        const auto* map = std::get_if<MapRegion>(&drafts[r].region.body);
        return map != nullptr && after[r].empty() && volume(map->space) <= kMostPutOff;
    };
    std::vector<std::size_t> result = order;
    std::stable_partition(result.begin(), result.end() - (last - order.rbegin()) - 1,
                          [&](std::size_t r) { return !can_wait(r); });
    return result;
}

/// Regions that lie on a circle or between circles: what is left when regions that wait for nobody, and regions that
/// nobody waits for, are taken away again and again.
std::vector<bool> entangled(const Edges& after, const std::vector<DraftRegion>& drafts) {
    std::vector<bool> left(drafts.size(), true);
    for (std::size_t r : sorted(after, drafts)) left[r] = false;
    Edges before(drafts.size());
    for (std::size_t from = 0; from < after.size(); ++from) {
        for (std::size_t to : after[from]) before[to].insert(from);
    }
    for (std::size_t r : sorted(before, drafts)) left[r] = false;
    return left;
}

/// The updates to change, one after the other, until no circle is left that an update is part of. Updates of few
/// elements go first.
std::vector<UpdateProblem> circular_updates(const Graph& graph, const std::vector<DraftRegion>& drafts,
                                            Waits waits) {
    std::vector<std::size_t> updates;
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
        if (waits.writer[v] != kNobody && std::holds_alternative<Update>(graph.nodes[v].op))
            updates.push_back(v);
    }
    std::stable_sort(updates.begin(), updates.end(), [&](std::size_t a, std::size_t b) {
        return volume(graph.nodes[a].type.shape) < volume(graph.nodes[b].type.shape);
    });
    std::vector<UpdateProblem> problems;
    std::vector<bool> left = entangled(waits.after, drafts);
    for (std::size_t v : updates) {
        const std::size_t writer = waits.writer[v];
        if (!left[writer]) continue;
        const auto& update = std::get<Update>(graph.nodes[v].op);
        bool released = false;
        for (std::size_t reader : waits.readers[update.state.index()]) {
            const bool only_waits = reader != writer && left[reader] && waits.data[reader].count(writer) == 0;
            if (only_waits) released = waits.after[reader].erase(writer) > 0 || released;
        }
        if (!released) continue;
        // Who reads the new value finds it in the state itself, which others may still read as it was.
        const bool separate = is_whole(graph, update) && waits.readers[v].empty();
        problems.push_back({ValueId(static_cast<std::int64_t>(v)), separate});
        left = entangled(waits.after, drafts);
    }
    return problems;
}

}  // namespace

std::optional<std::vector<std::size_t>> program_order(const Graph& graph,
                                                      const std::vector<DraftRegion>& drafts,
                                                      std::vector<UpdateProblem>* problems) {
    const Waits waits = waits_of(graph, drafts, *problems);
    if (!problems->empty()) return std::nullopt;
    std::vector<std::size_t> order = sorted(waits.after, drafts);
    if (order.size() == drafts.size()) return put_off_updates(drafts, waits.after, order);
    *problems = circular_updates(graph, drafts, waits);
    if (!problems->empty()) return std::nullopt;
    const std::vector<bool> left = entangled(waits.after, drafts);
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
        const ValueId id(static_cast<std::int64_t>(v));
        const bool stuck = waits.writer[v] != kNobody && left[waits.writer[v]];
        if (stuck && is_epilogue(graph, drafts[waits.writer[v]], id)) throw NotAnEpilogue{id};
    }
    throw InternalError("regions depend on each other in a circle");
}

}  // namespace stretto
