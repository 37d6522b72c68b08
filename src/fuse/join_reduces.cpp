#include "fuse/join_reduces.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "abi/abi.h"
#include "fuse/joined_stores.h"
#include "fuse/neighbours.h"
#include "fuse/passes.h"
#include "fuse/reduce_lanes.h"
#include "fuse/touches.h"
#include "graph/index_groups.h"

namespace stretto {
namespace {

/// Each has registers of every lane.
constexpr std::size_t kMostReductions = 4;

const ReduceRegion* reduce_of(const Region& region) { return std::get_if<ReduceRegion>(&region.body); }

bool is_same(const Access& a, const Access& b) {
    return a.source == b.source && a.indirect == b.indirect && normalized(a.map) == normalized(b.map);
}

/// Are terms summed up in the same order?
bool is_same_order(const ReduceLanes& a, const ReduceLanes& b) {
    const bool by_lane = a.way == ReduceLanes::Way::Own;
    return a.way == b.way && (by_lane || (a.vector == b.vector && a.dim == b.dim));
}

/// Does the access move along a row?
bool moves(const Access& access, std::int32_t kept) {
    for (auto d = static_cast<std::size_t>(kept); d < access.map.rank(); ++d) {
        if (moves_along(access.map, d)) return true;
    }
    return false;
}

/// Do terms of both read the same elements of a row?
bool share_a_row(const ReduceRegion& a, const ReduceRegion& b) {
    const auto any_access = [](const ReduceRegion& region, const auto& holds) {
        return std::any_of(
            region.reductions.begin(), region.reductions.end(), [&](const Reduction& reduction) {
                return std::any_of(reduction.term.accesses.begin(), reduction.term.accesses.end(), holds);
            });
    };
    return any_access(a, [&](const Access& x) {
        return moves(x, a.kept) && any_access(b, [&](const Access& y) { return is_same(x, y); });
    });
}

/// Stores with an element of its own for each row, known before the task runs.
bool has_plain_stores(const ReduceRegion& region) {
    return std::all_of(region.stores.begin(), region.stores.end(), [&](const Store& store) {
        Access rows = store.target;
        rows.map.dims.resize(static_cast<std::size_t>(region.kept));
        return !moves(store.target, region.kept) && is_injective(rows);
    });
}

/// Is everything that `second` does with a buffer that `first` fills a read of the very elements, row for row?
bool reads_row_for_row(const Region& second, const ReduceRegion& first, std::int32_t buffer) {
    const auto fills = [&](const Store& store) { return store.target.source == buffer; };
    if (std::count_if(first.stores.begin(), first.stores.end(), fills) != 1) return false;
    const Access& filled = std::find_if(first.stores.begin(), first.stores.end(), fills)->target;
    const std::vector<Use> all = uses(second);
    return std::all_of(all.begin(), all.end(), [&](const Use& use) {
        return use.access->source != buffer || (!use.write && is_same(*use.access, filled));
    });
}

class Joiner {
public:
    Joiner(RegionGraph& graph, const Machine& machine) : graph_(graph), machine_(machine), touches_(graph) {}

    void run() {
        for (std::size_t r = 0; r < graph_.regions.size();) {
            const auto first = joined_with(r);
            r = first ? *first : r + 1;
        }
        remove_empty(graph_);
    }

private:
    /// The earlier region that the region is joined with, if any.
    std::optional<std::size_t> joined_with(std::size_t second) {
        for (std::size_t first = second; first-- > 0;) {
            if (!try_join(first, second) && !try_join_map(first, second)) continue;
            for (std::size_t r = first; r <= second; ++r) touches_.update(r);
            return first;
        }
        return std::nullopt;
    }

    bool try_join(std::size_t first, std::size_t second) {
        const ReduceRegion* a = reduce_of(graph_.regions[first]);
        const ReduceRegion* b = reduce_of(graph_.regions[second]);
        if (a == nullptr || b == nullptr || a->space != b->space || a->kept != b->kept) return false;
        const auto knows = reads_results(first, second);
        if (!knows || !(*knows || share_a_row(*a, *b)) || !fit(*a, *b)) return false;
        if (*knows ? reduce_lanes(*a).way == ReduceLanes::Way::Columns : !occupies_most_workers(*a))
            return false;
        if (touches_.buffers_of_both(first, second) > abi::kMaxOperands) return false;
        const auto behind = regions_behind(first, second, touches_);
        if (!behind || !waits_for_nothing_else(second, first)) return false;
        if (!*knows && !waits_for_nothing_else(first, second)) return false;
        auto region =
            joined(*a, *b, [&](std::int32_t buffer) { return *knows && touches_.is_for(buffer, second); });
        if (!region) return false;
        put_together(graph_, first, second, std::move(*region), *behind);
        return true;
    }

    /// Element-wise work that reads the results, each in its own row.
    bool try_join_map(std::size_t first, std::size_t second) {
        const ReduceRegion* a = reduce_of(graph_.regions[first]);
        const auto* map = std::get_if<MapRegion>(&graph_.regions[second].body);
        if (a == nullptr || map == nullptr || a->space != map->space || a->ragged) return false;
        const auto knows = reads_results(first, second);
        if (!knows || !*knows || !has_plain_stores(*a) || !occupies_most_workers(*a)) return false;
        const ReduceLanes::Way way = reduce_lanes(*a).way;
        if (way != ReduceLanes::Way::Along && way != ReduceLanes::Way::Together) return false;
        if (touches_.buffers_of_both(first, second) > abi::kMaxOperands) return false;
        const auto behind = regions_behind(first, second, touches_);
        if (!behind || !waits_for_nothing_else(second, first)) return false;
        ReduceRegion result = *a;
        for (const Store& store : map->stores) {
            Store of_row{store.target, with_values_of(a->stores, store.expr), {}};
            if (!store.indices.empty() || of_row.expr.nodes.size() > kMostJoinedNodes) return false;
            result.element_stores.push_back(std::move(of_row));
        }
        std::erase_if(result.stores,
                      [&](const Store& store) { return touches_.is_for(store.target.source, second); });
        put_together(graph_, first, second, std::move(result), *behind);
        return true;
    }

    /// May one region do what both do, row by row, with terms in the order in which each takes them?
    static bool fit(const ReduceRegion& a, const ReduceRegion& b) {
        return !a.ragged && !b.ragged && a.reductions.size() + b.reductions.size() <= kMostReductions &&
               accumulator_domain(a) == accumulator_domain(b) && has_plain_stores(a) && has_plain_stores(b) &&
               is_same_order(reduce_lanes(a), reduce_lanes(b));
    }

    static std::pair<bool, bool> accumulator_domain(const ReduceRegion& region) {
        const DType type = region.reductions.front().term.type();
        return {is_float(type), type == DType::F64};
    }

    /// Does the second read what the first stores? Nothing where it does so other than row for row, or changes what the
    /// first touches.
    [[nodiscard]] std::optional<bool> reads_results(std::size_t first, std::size_t second) const {
        bool reads = false;
        for (const auto& [buffer, touch] : touches_.of(second)) {
            const auto found = touches_.of(first).find(buffer);
            if (found == touches_.of(first).end()) continue;
            if (touch.writes) return std::nullopt;
            if (!found->second.writes) continue;
            if (!reads_row_for_row(graph_.regions[second], *reduce_of(graph_.regions[first]), buffer))
                return std::nullopt;
            reads = true;
        }
        return reads;
    }

    [[nodiscard]] bool occupies_most_workers(const ReduceRegion& region) const {
        const Shape rows(region.space.begin(), region.space.begin() + region.kept);
        const std::int64_t together = results_at_once(region, machine_.consumer_warps);
        return 2 * volume(rows) > machine_.workers * together;
    }

    /// Does everything that `region` reads come from `other`, or from what that waits for?
    [[nodiscard]] bool waits_for_nothing_else(std::size_t region, std::size_t other) const {
        const std::set<std::size_t> known = regions_before(other);
        return std::all_of(touches_.of(region).begin(), touches_.of(region).end(), [&](const auto& entry) {
            const auto& [buffer, touch] = entry;
            const auto writer = touch.reads ? touches_.last_writer(buffer, region) : std::nullopt;
            return !writer || *writer == other || known.count(*writer) > 0;
        });
    }

    /// The regions whose results a region needs, directly or not.
    [[nodiscard]] std::set<std::size_t> regions_before(std::size_t region) const {
        std::set<std::size_t> known;
        std::vector<std::size_t> open{region};
        while (!open.empty()) {
            const std::size_t reader = open.back();
            open.pop_back();
            for (const auto& [buffer, touch] : touches_.of(reader)) {
                const auto writer = touch.reads ? touches_.last_writer(buffer, reader) : std::nullopt;
                if (writer && known.insert(*writer).second) open.push_back(*writer);
            }
        }
        return known;
    }

    static std::optional<ReduceRegion> joined(const ReduceRegion& first, const ReduceRegion& second,
                                              const std::function<bool(std::int32_t)>& dropped) {
        ReduceRegion result = first;
        std::vector<std::size_t> numbers(second.reductions.size());
        std::iota(numbers.begin(), numbers.end(), first.reductions.size());
        for (const Reduction& reduction : second.reductions) {
            Expr term = with_values_of(first.stores, renumbered(reduction.term, numbers));
            if (term.nodes.size() > kMostJoinedNodes) return std::nullopt;
            result.reductions.push_back({reduction.op, std::move(term)});
        }
        std::vector<Store> later = second.stores;
        for (Store& store : later) store.expr = renumbered(store.expr, numbers);
        auto stores = joined_stores(first.stores, later, dropped);
        if (!stores) return std::nullopt;
        result.stores = std::move(*stores);
        for (Store store : second.element_stores) {
            store.expr = with_values_of(first.stores, renumbered(store.expr, numbers));
            if (store.expr.nodes.size() > kMostJoinedNodes) return std::nullopt;
            result.element_stores.push_back(std::move(store));
        }
        sort_by_pass(result);
        return result;
    }

    RegionGraph& graph_;
    const Machine& machine_;
    Touches touches_;
};

}  // namespace

void join_reduces(RegionGraph& graph, const Machine& machine) { Joiner(graph, machine).run(); }

}  // namespace stretto
