#include "fuse/join.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "abi/abi.h"

namespace stretto {
namespace {

/// Longer stores are not worth the loads that they save.
constexpr std::size_t kMostNodes = 256;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

const MapRegion* map_of(const Region& region) { return std::get_if<MapRegion>(&region.body); }

/// How a map region touches each buffer.
struct Touch {
    bool reads = false;
    bool writes = false;
    std::optional<Access> access;  ///< the one way in which it does; empty where there are several
};
using Touches = std::map<std::int32_t, Touch>;

Touches touches_of(const Region& region) {
    Touches touches;
    for (const Use& use : uses(region)) {
        auto [entry, first] = touches.try_emplace(use.access->source);
        Touch& touch = entry->second;
        (use.write ? touch.writes : touch.reads) = true;
        Access plain = *use.access;
        plain.map = normalized(plain.map);
        if (first) touch.access = plain;
        if (touch.access != plain) touch.access.reset();
    }
    return touches;
}

/// Does the access give every position of the space an element of its own, known before the task runs?
bool is_injective(const std::optional<Access>& access) {
    if (!access || !access->indirect.empty() || access->map.masked()) return false;
    std::vector<Atom> digits;
    for (const auto& dim : access->map.dims) {
        std::copy_if(dim.begin(), dim.end(), std::back_inserter(digits),
                     [](const Atom& d) { return d.extent > 1; });
    }
    std::sort(digits.begin(), digits.end(), [](const Atom& a, const Atom& b) { return a.stride < b.stride; });
    std::int64_t reach = 1;
    return std::all_of(digits.begin(), digits.end(), [&](const Atom& digit) {
        const bool apart = digit.stride >= reach;
        reach = digit.stride * (digit.extent - 1) + reach;
        return apart;
    });
}

/// `expr` with every load of a buffer that one of the `stores` fills replaced by what it puts there. What takes a load's place
/// reads the elements from before all stores.
Expr with_values_of(const std::vector<Store>& stores, const Expr& expr) {
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const ExprNode& node = expr.nodes[i];
        if (node.op != Op::Load) return std::nullopt;
        const Access& access = expr.accesses[static_cast<std::size_t>(node.integer)];
        const auto store = std::find_if(stores.begin(), stores.end(),
                                        [&](const Store& s) { return s.target.source == access.source; });
        if (store == stores.end()) return std::nullopt;
        return out.cast(copy_into(out, store->expr, store->expr.root()), access.type);
    });
}

bool reads(const Expr& expr, std::int32_t buffer) {
    return std::any_of(expr.accesses.begin(), expr.accesses.end(),
                       [&](const Access& access) { return access.source == buffer; });
}

/// The stores in an order in which each reads only elements that no earlier one has changed; empty where there is none.
std::optional<std::vector<Store>> readers_first(std::vector<Store> stores) {
    std::vector<Store> ordered;
    while (!stores.empty()) {
        const auto ready = std::find_if(stores.begin(), stores.end(), [&](const Store& store) {
            return std::none_of(stores.begin(), stores.end(), [&](const Store& other) {
                return &other != &store && reads(other.expr, store.target.source);
            });
        });
        if (ready == stores.end()) return std::nullopt;
        ordered.push_back(std::move(*ready));
        stores.erase(ready);
    }
    return ordered;
}

class Joiner {
public:
    explicit Joiner(RegionGraph& graph) : graph_(graph) {
        for (const Region& region : graph.regions) touches_.push_back(touches_of(region));
        for (std::size_t r = 0; r < touches_.size(); ++r) {
            for (const auto& [buffer, touch] : touches_[r]) users_[buffer].insert(r);
        }
    }

    void run() {
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            const MapRegion* map = map_of(graph_.regions[r]);
            if (map == nullptr) continue;
            std::vector<std::size_t>& others = by_space_[map->space];
            const std::size_t last = last_conflict(r);
            for (std::size_t n = others.size(); n-- > 0;) {
                const std::size_t other = others[n];
                if (last != kNone && other < last) break;
                if (try_join(other, r)) break;
            }
            if (map_of(graph_.regions[r])->stores.empty()) continue;
            others.push_back(r);
        }
        remove_empty();
    }

private:
    /// The last region before `r` that `r` may not overtake.
    [[nodiscard]] std::size_t last_conflict(std::size_t r) const {
        std::size_t last = kNone;
        for (const auto& [buffer, touch] : touches_[r]) {
            const std::set<std::size_t>& users = users_.at(buffer);
            for (auto user = std::make_reverse_iterator(users.lower_bound(r)); user != users.rend(); ++user) {
                if (!touch.writes && !touches_[*user].at(buffer).writes) continue;
                if (last == kNone || *user > last) last = *user;
                break;
            }
        }
        return last;
    }

    /// May the regions do their work position by position, and do they share a large part of their loads?
    [[nodiscard]] bool fit(std::size_t first, std::size_t second) const {
        bool share = false;
        std::set<std::int32_t> buffers;
        for (const auto& [buffer, touch] : touches_[first]) buffers.insert(buffer);
        for (const auto& [buffer, touch] : touches_[second]) {
            buffers.insert(buffer);
            const auto found = touches_[first].find(buffer);
            if (found == touches_[first].end()) continue;
            const Touch& other = found->second;
            const bool same = touch.access == other.access && is_injective(touch.access);
            if (touch.writes && other.writes) return false;
            if ((touch.writes || other.writes) && !same) return false;
            share = share || same;
        }
        return share && buffers.size() <= abi::kMaxOperands;
    }

    bool try_join(std::size_t first, std::size_t second) {
        if (!fit(first, second)) return false;
        auto& into = std::get<MapRegion>(graph_.regions[first].body);
        auto& from = std::get<MapRegion>(graph_.regions[second].body);
        const auto plain = [](const Store& store) { return store.indices.empty(); };
        if (!std::all_of(into.stores.begin(), into.stores.end(), plain) ||
            !std::all_of(from.stores.begin(), from.stores.end(), plain)) {
            return false;
        }
        std::vector<Store> stores = into.stores;
        for (Store store : from.stores) {
            store.expr = with_values_of(into.stores, store.expr);
            if (store.expr.nodes.size() > kMostNodes) return false;
            stores.push_back(std::move(store));
        }
        std::erase_if(stores, [&](const Store& store) { return is_for(store.target.source, second); });
        auto ordered = readers_first(std::move(stores));
        if (!ordered) return false;
        into.stores = std::move(*ordered);
        from.stores.clear();
        for (const std::size_t r : {first, second}) {
            for (const auto& [buffer, touch] : touches_[r]) users_[buffer].erase(r);
            touches_[r] = touches_of(graph_.regions[r]);
            for (const auto& [buffer, touch] : touches_[r]) users_[buffer].insert(r);
        }
        return true;
    }

    /// Is the intermediate written for `reader` alone?
    [[nodiscard]] bool is_for(std::int32_t buffer, std::size_t reader) const {
        if (graph_.buffers[static_cast<std::size_t>(buffer)].role != BufferRole::Arena) return false;
        const std::set<std::size_t>& users = users_.at(buffer);
        return users.size() == 2 && users.count(reader) > 0 && !touches_[reader].at(buffer).writes;
    }

    /// Drops regions without stores and intermediates without users.
    void remove_empty() {
        std::erase_if(graph_.regions, [](const Region& region) {
            const MapRegion* map = map_of(region);
            return map != nullptr && map->stores.empty();
        });
        std::vector<bool> used(graph_.buffers.size(), false);
        for (const Region& region : graph_.regions) {
            for (const Use& use : uses(region)) used[static_cast<std::size_t>(use.access->source)] = true;
        }
        std::vector<std::int32_t> renamed(graph_.buffers.size(), -1);
        std::vector<Buffer> kept;
        for (std::size_t b = 0; b < graph_.buffers.size(); ++b) {
            if (!used[b] && graph_.buffers[b].role == BufferRole::Arena) continue;
            renamed[b] = static_cast<std::int32_t>(kept.size());
            kept.push_back(std::move(graph_.buffers[b]));
        }
        graph_.buffers = std::move(kept);
        for (Region& region : graph_.regions) {
            change_accesses(region, [&](Access& access) {
                access.source = renamed[static_cast<std::size_t>(access.source)];
            });
        }
    }

    RegionGraph& graph_;
    std::vector<Touches> touches_;                         ///< by region
    std::map<std::int32_t, std::set<std::size_t>> users_;  ///< regions by buffer
    std::map<Shape, std::vector<std::size_t>> by_space_;   ///< map regions so far
};

}  // namespace

void join_maps(RegionGraph& graph) { Joiner(graph).run(); }

}  // namespace stretto
