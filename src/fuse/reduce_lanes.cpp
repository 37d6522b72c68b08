#include "fuse/reduce_lanes.h"

#include <algorithm>

#include "abi/abi.h"
#include "base/error.h"
#include "fuse/groups.h"

namespace stretto {
namespace {

constexpr std::int64_t kLanesOfWarp = 32;
constexpr std::int64_t kManyTerms = 32;  ///< fewer do not occupy the shares
constexpr std::int64_t kLongRow = 256;   ///< shorter rows leave lanes without a vector

/// The last dimension in [begin, end) of more than one position; `end` where there is none.
std::size_t last_dim(const Shape& space, std::size_t begin, std::size_t end) {
    for (std::size_t d = end; d-- > begin;) {
        if (space[d] > 1) return d;
    }
    return end;
}

/// Loads that step from element to element along `dim`.
std::int64_t loads_along(const Expr& term, std::size_t dim) {
    return std::count_if(term.accesses.begin(), term.accesses.end(), [&](const Access& access) {
        const Atom last = normalized(access.map).dims[dim].back();
        return last.extent > 1 && last.stride == 1;
    });
}

/// Does every result take the same elements, so that a warp for each would read them all anew?
bool shares_terms(const Expr& term, std::size_t outer, std::size_t inner) {
    const auto moves = [](const Access& access, std::size_t dim) {
        const auto& digits = access.map.dims[dim];
        return std::any_of(digits.begin(), digits.end(),
                           [](const Atom& digit) { return digit.extent > 1 && digit.stride != 0; });
    };
    return std::all_of(term.accesses.begin(), term.accesses.end(), [&](const Access& access) {
        return access.indirect.empty() && !(moves(access, outer) && moves(access, inner));
    });
}

/// Of many results, the neighbours along `dim` that one lane has.
std::int64_t results_of_lane(const ReduceRegion& region, std::size_t dim) {
    const Shape kept(region.space.begin(), region.space.begin() + region.kept);
    if (dim == kept.size() || volume(kept) <= kManyPositions) return 1;
    const std::int64_t count =
        group_length(region.reductions.front().term, region.stores, dim, region.space[dim]);
    const auto differs = [&](const Access& bound) { return moves_within_groups(bound.map, dim, count); };
    const bool apart = region.ragged && (differs(region.ragged->begin) || differs(region.ragged->end));
    return count > 1 && !apart ? count : 1;
}

}  // namespace

ReduceLanes reduce_lanes(const ReduceRegion& region) {
    using Way = ReduceLanes::Way;
    const auto kept = static_cast<std::size_t>(region.kept);
    const Shape reduced(region.space.begin() + region.kept, region.space.end());
    const std::size_t outer = last_dim(region.space, 0, kept);
    if (region.ragged || volume(reduced) < kManyTerms)
        return {Way::Own, results_of_lane(region, outer), outer};
    const Expr& term = region.reductions.front().term;
    const std::size_t inner = last_dim(region.space, kept, region.space.size());
    const bool columns =
        outer != kept && region.space[outer] >= abi::kReduceColumns &&
        (loads_along(term, outer) > loads_along(term, inner) || shares_terms(term, outer, inner));
    if (columns) return {Way::Columns, group_length(term, outer, region.space[outer], false), outer};
    if (region.space[inner] < kLongRow) return {};
    const bool one_row = volume(reduced) == region.space[inner];
    return {Way::Along, group_length(term, inner, region.space[inner], one_row), inner};
}

std::int64_t results_at_once(const ReduceRegion& region, std::int64_t warps) {
    switch (reduce_lanes(region).way) {
        case ReduceLanes::Way::Along:
            return warps;
        case ReduceLanes::Way::Own:
            return warps * kLanesOfWarp;
        case ReduceLanes::Way::Columns:
            return abi::kReduceColumns;
    }
    throw InternalError("a reduction is dealt in an unknown way");
}

}  // namespace stretto
