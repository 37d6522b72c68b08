#include "fuse/joined_stores.h"

#include <algorithm>

namespace stretto {
namespace {

bool reads(const Expr& expr, std::int32_t buffer) {
    return std::any_of(expr.accesses.begin(), expr.accesses.end(),
                       [&](const Access& access) { return access.source == buffer; });
}

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

}  // namespace

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

Expr renumbered(const Expr& expr, const std::vector<std::size_t>& numbers) {
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const ExprNode& node = expr.nodes[i];
        if (node.op != Op::Acc) return std::nullopt;
        return out.acc(static_cast<int>(numbers[static_cast<std::size_t>(node.integer)]), node.type);
    });
}

std::optional<std::vector<Store>> joined_stores(const std::vector<Store>& first,
                                                const std::vector<Store>& second,
                                                const std::function<bool(std::int32_t buffer)>& dropped) {
    const auto indirect = [](const Store& store) { return !store.indices.empty(); };
    if (std::any_of(first.begin(), first.end(), indirect) ||
        std::any_of(second.begin(), second.end(), indirect)) {
        return std::nullopt;
    }
    std::vector<Store> stores = first;
    for (Store store : second) {
        store.expr = with_values_of(first, store.expr);
        if (store.expr.nodes.size() > kMostJoinedNodes) return std::nullopt;
        stores.push_back(std::move(store));
    }
    std::erase_if(stores, [&](const Store& store) { return dropped(store.target.source); });
    return readers_first(std::move(stores));
}

void remove_empty(RegionGraph& graph) {
    std::erase_if(graph.regions, [](const Region& region) {
        const auto* map = std::get_if<MapRegion>(&region.body);
        return map != nullptr && map->stores.empty();
    });
    std::vector<bool> used(graph.buffers.size(), false);
    for (const Region& region : graph.regions) {
        for (const Use& use : uses(region)) used[static_cast<std::size_t>(use.access->source)] = true;
    }
    std::vector<std::int32_t> renamed(graph.buffers.size(), -1);
    std::vector<Buffer> kept;
    for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
        if (!used[b] && graph.buffers[b].role == BufferRole::Arena) continue;
        renamed[b] = static_cast<std::int32_t>(kept.size());
        kept.push_back(std::move(graph.buffers[b]));
    }
    graph.buffers = std::move(kept);
    for (Region& region : graph.regions) {
        change_accesses(region, [&](Access& access) {
            access.source = renamed[static_cast<std::size_t>(access.source)];
        });
    }
}

}  // namespace stretto
