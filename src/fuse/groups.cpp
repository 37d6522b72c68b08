#include "fuse/groups.h"

#include <algorithm>
#include <iterator>

#include "graph/index_groups.h"

namespace stretto {
namespace {

constexpr std::int64_t kBytes = 16;  ///< of one access

/// An access of a group of neighbours.
struct Moved {
    const Access* access;
    bool one_place;  ///< its indirect coordinates, if any, are the same for all of them
};
using Accesses = std::vector<Moved>;

void add_loads(Accesses& accesses, const Expr& expr, std::size_t dim) {
    for (const ExprNode& node : expr.nodes) {
        if (node.op != Op::Load) continue;
        const Access& access = expr.accesses[static_cast<std::size_t>(node.integer)];
        accesses.push_back({&access, shares_place(expr, node, dim)});
    }
}

Accesses accesses_of(const std::vector<Store>& stores, std::size_t dim) {
    Accesses accesses;
    for (const Store& store : stores) {
        accesses.push_back({&store.target, store.indices.empty()});
        add_loads(accesses, store.expr, dim);
    }
    return accesses;
}

bool lies_together(const Moved& moved, std::size_t dim, std::int64_t count) {
    const auto begins_group = [&](const Access::Indirect& at) { return at.stride % count == 0; };
    const Access& access = *moved.access;
    return moved.one_place && lies_in_groups(access.map, dim, count) &&
           std::all_of(access.indirect.begin(), access.indirect.end(), begins_group);
}

/// Fills one access of 16 bytes at most.
bool gains(const Moved& moved, std::size_t dim, std::int64_t count) {
    return lies_together(moved, dim, count) &&
           count * static_cast<std::int64_t>(size_of(moved.access->type)) <= kBytes;
}

/// Of groups of `count`. Places that depend on data are apart in any case.
bool moves_alone(const Moved& moved, std::size_t dim, std::int64_t count) {
    const IndexMap& map = moved.access->map;
    const bool together = count > 1 && lies_in_groups(map, dim, count);
    return moved.access->indirect.empty() && !together &&
           moves_within_groups(map, dim, std::max<std::int64_t>(count, 2));
}

std::int64_t length_of(const Accesses& accesses, std::size_t dim, std::int64_t extent, bool rest) {
    for (std::int64_t count = kMostInGroup; count > 1; count /= 2) {
        const auto gain = [&](const Moved& moved) { return gains(moved, dim, count); };
        const auto alone = [&](const Moved& moved) { return moves_alone(moved, dim, count); };
        if (std::none_of(accesses.begin(), accesses.end(), gain)) continue;
        if (extent % count == 0) return count;
        if (rest && extent > count && std::none_of(accesses.begin(), accesses.end(), alone)) return count;
    }
    return 1;
}

}  // namespace

bool shares_place(const Expr& expr, const ExprNode& load, std::size_t dim) {
    return std::all_of(load.args.begin(), load.args.end(), [&](std::int32_t arg) {
        const Expr place = extracted(expr, arg);
        const bool early = std::none_of(place.nodes.begin(), place.nodes.end(), [](const ExprNode& node) {
            return node.op == Op::Acc || node.op == Op::Stat;
        });
        return early && !depends_on(place, place.root(), dim);
    });
}

bool loads_together(const Expr& expr, const ExprNode& load, std::size_t dim, std::int64_t count) {
    const Access& access = expr.accesses[static_cast<std::size_t>(load.integer)];
    return lies_together({&access, shares_place(expr, load, dim)}, dim, count);
}

std::int64_t group_length(const Expr& term, std::size_t dim, std::int64_t extent, bool rest) {
    Accesses accesses;
    add_loads(accesses, term, dim);
    return length_of(accesses, dim, extent, rest);
}

std::int64_t group_length(const Expr& term, const std::vector<Store>& stores, std::size_t dim,
                          std::int64_t extent) {
    Accesses accesses = accesses_of(stores, dim);
    add_loads(accesses, term, dim);
    for (std::int64_t count = kMostInGroup; count > 1; count /= 2) {
        const auto gain = [&](const Moved& moved) { return gains(moved, dim, count); };
        const auto together = [&](const Moved& moved) {
            return lies_together(moved, dim, count) ||
                   (moved.one_place && !moves_within_groups(moved.access->map, dim, count));
        };
        if (extent % count == 0 && std::any_of(accesses.begin(), accesses.end(), gain) &&
            std::all_of(accesses.begin(), accesses.end(), together))
            return count;
    }
    return 1;
}

std::int64_t group_length(const RegionGraph& graph, const std::vector<Store>& stores, std::size_t dim,
                          std::int64_t extent, bool rest) {
    const Accesses accesses = accesses_of(stores, dim);
    const bool placed =
        std::any_of(stores.begin(), stores.end(), [](const Store& store) { return !store.indices.empty(); });
    const bool words = std::any_of(accesses.begin(), accesses.end(), [&](const Moved& moved) {
        return graph[BufferId(moved.access->source)].tagged;
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
        const Accesses all = accesses_of(stores, along);
        const auto alone = [&](const Moved& moved) { return moves_alone(moved, along, length); };
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
