#include "fuse/groups.h"

#include <algorithm>
#include <iterator>

namespace stretto {
namespace {

constexpr std::int64_t kBytes = 16;  ///< of one access

/// A map of fewer positions has one for each thread at most: what its threads take together only leaves others idle.
constexpr std::int64_t kManyPositions = 1 << 15;

using Accesses = std::vector<const Access*>;

Accesses accesses_of(const std::vector<Store>& stores) {
    Accesses accesses;
    for (const Store& store : stores) {
        accesses.push_back(&store.target);
        for (const Access& access : store.expr.accesses) accesses.push_back(&access);
    }
    return accesses;
}

bool lies_together(const Access& access, std::size_t dim, std::int64_t count) {
    return access.indirect.empty() && lies_in_groups(access.map, dim, count);
}

/// Of groups of `count`. Places that depend on data are apart in any case.
bool moves_alone(const Access& access, std::size_t dim, std::int64_t count) {
    const bool together = count > 1 && lies_in_groups(access.map, dim, count);
    return access.indirect.empty() && !together &&
           moves_within_groups(access.map, dim, std::max<std::int64_t>(count, 2));
}

std::int64_t length_of(const Accesses& accesses, std::size_t dim, std::int64_t extent, bool rest) {
    for (std::int64_t count = kMostInGroup; count > 1; count /= 2) {
        const auto gains = [&](const Access* access) {
            return lies_together(*access, dim, count) &&
                   count * static_cast<std::int64_t>(size_of(access->type)) <= kBytes;
        };
        const auto alone = [&](const Access* access) { return moves_alone(*access, dim, count); };
        if (std::none_of(accesses.begin(), accesses.end(), gains)) continue;
        if (extent % count == 0) return count;
        if (rest && extent > count && std::none_of(accesses.begin(), accesses.end(), alone)) return count;
    }
    return 1;
}

}  // namespace

std::int64_t group_length(const Expr& term, std::size_t dim, std::int64_t extent, bool rest) {
    Accesses accesses;
    for (const Access& access : term.accesses) accesses.push_back(&access);
    return length_of(accesses, dim, extent, rest);
}

std::int64_t group_length(const RegionGraph& graph, const std::vector<Store>& stores, std::size_t dim,
                          std::int64_t extent, bool rest) {
    const Accesses accesses = accesses_of(stores);
    const bool placed =
        std::any_of(stores.begin(), stores.end(), [](const Store& store) { return !store.indices.empty(); });
    const bool words = std::any_of(accesses.begin(), accesses.end(), [&](const Access* access) {
        return graph[BufferId(access->source)].tagged;
    });
    return words || placed ? 1 : length_of(accesses, dim, extent, rest);
}

std::optional<MapRegion> flattened(MapRegion region) {
    region.space = {volume(region.space)};
    const auto flatten = [](Access& access) {
        std::vector<Atom> digits;
        for (const auto& dim : access.map.dims) digits.insert(digits.end(), dim.begin(), dim.end());
        access.map.dims = {std::move(digits)};
        access.map = normalized(access.map);
    };
    for (Store& store : region.stores) {
        const bool named = std::any_of(store.expr.nodes.begin(), store.expr.nodes.end(),
                                       [](const ExprNode& node) { return node.op == Op::Index; });
        if (named) return std::nullopt;
        flatten(store.target);
        for (Access& access : store.expr.accesses) flatten(access);
    }
    return region;
}

MapGroups map_groups(const RegionGraph& graph, const MapRegion& region) {
    using Way = MapGroups::Way;
    const auto last = std::find_if(region.space.rbegin(), region.space.rend(),
                                   [](std::int64_t extent) { return extent != 1; });
    if (last == region.space.rend()) return {};
    const auto dim = static_cast<std::size_t>(std::distance(last, region.space.rend())) - 1;
    const auto groups = [](const std::vector<Store>& stores, std::int64_t length, Way way,
                           std::size_t along) {
        const Accesses all = accesses_of(stores);
        const auto alone = [&](const Access* access) { return moves_alone(*access, along, length); };
        return MapGroups{length, way, along, std::count_if(all.begin(), all.end(), alone)};
    };
    if (volume(region.space) < kManyPositions) return groups(region.stores, 1, Way::Rows, dim);
    const std::int64_t rows = group_length(graph, region.stores, dim, *last, false);
    const std::int64_t with_rest = group_length(graph, region.stores, dim, *last, true);
    if (rows > 1 && with_rest == rows) return groups(region.stores, rows, Way::Rows, dim);
    if (const auto flat = flattened(region); flat && rows == 1) {
        const std::int64_t length = group_length(graph, flat->stores, 0, flat->space.front(), false);
        if (length > 1) return groups(flat->stores, length, Way::Flat, 0);
    }
    return groups(region.stores, with_rest, with_rest > 1 ? Way::RowsRest : Way::Rows, dim);
}

}  // namespace stretto
