#include "fuse/join.h"

#include <map>

#include "abi/abi.h"
#include "fuse/joined_stores.h"
#include "fuse/touches.h"

namespace stretto {
namespace {

const MapRegion* map_of(const Region& region) { return std::get_if<MapRegion>(&region.body); }

class Joiner {
public:
    explicit Joiner(RegionGraph& graph) : graph_(graph), touches_(graph) {}

    void run() {
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            const MapRegion* map = map_of(graph_.regions[r]);
            if (map == nullptr) continue;
            std::vector<std::size_t>& others = by_space_[map->space];
            const auto last = touches_.last_conflict(r);
            for (std::size_t n = others.size(); n-- > 0;) {
                const std::size_t other = others[n];
                if (last && other < *last) break;
                if (try_join(other, r)) break;
            }
            if (map_of(graph_.regions[r])->stores.empty()) continue;
            others.push_back(r);
        }
    }

private:
    /// May the regions do their work position by position, and do they share a large part of their loads?
    [[nodiscard]] bool fit(std::size_t first, std::size_t second) const {
        bool share = false;
        for (const auto& [buffer, touch] : touches_.of(second)) {
            const auto found = touches_.of(first).find(buffer);
            if (found == touches_.of(first).end()) continue;
            const Touch& other = found->second;
            const bool same = touch.access == other.access && touch.access && is_injective(*touch.access);
            if (touch.writes && other.writes) return false;
            if ((touch.writes || other.writes) && !same) return false;
            share = share || same;
        }
        return share && touches_.buffers_of_both(first, second) <= abi::kMaxOperands;
    }

    bool try_join(std::size_t first, std::size_t second) {
        if (!fit(first, second)) return false;
        auto& into = std::get<MapRegion>(graph_.regions[first].body);
        auto& from = std::get<MapRegion>(graph_.regions[second].body);
        auto stores = joined_stores(into.stores, from.stores,
                                    [&](std::int32_t buffer) { return touches_.is_for(buffer, second); });
        if (!stores) return false;
        into.stores = std::move(*stores);
        from.stores.clear();
        touches_.update(first);
        touches_.update(second);
        return true;
    }

    RegionGraph& graph_;
    Touches touches_;
    std::map<Shape, std::vector<std::size_t>> by_space_;  ///< map regions so far
};

}  // namespace

void join_maps(RegionGraph& graph) {
    Joiner(graph).run();
    remove_empty(graph);
}

}  // namespace stretto
