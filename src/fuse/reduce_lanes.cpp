#include "fuse/reduce_lanes.h"

#include <algorithm>

#include "abi/abi.h"
#include "base/error.h"
#include "base/warp.h"
#include "fuse/groups.h"
#include "graph/index_groups.h"

namespace stretto {
namespace {

constexpr std::int64_t kManyTerms = 32;  ///< fewer do not occupy the shares
constexpr std::int64_t kLongRow = 256;   ///< shorter rows leave lanes without a vector
/// So many short rows leave no lane without one; a lane has all groups of a row on their way together.
constexpr std::int64_t kManyRows = 8192;
constexpr std::int64_t kMostGroups = 8;
/// So few results leave all but one of a warp's lanes idle where a lane has each, and takes its terms one after the other.
constexpr std::int64_t kFewResults = 8;
/// So few rows leave workers idle where a warp has each; shorter ones than these are not worth the meeting of the warps.
constexpr std::int64_t kFewRows = 128;
constexpr std::int64_t kRowOfFew = 1024;
/// With a row like this for each warp, the rows at hand would not fit in the L2, where their next pass looks for them.
constexpr std::int64_t kRowOfAll = 16384;

/// The last dimension in [begin, end) of more than one position; `end` where there is none.
std::size_t last_dim(const Shape& space, std::size_t begin, std::size_t end) {
    for (std::size_t d = end; d-- > begin;) {
        if (space[d] > 1) return d;
    }
    return end;
}

bool steps(const Access& access, std::size_t dim) {
    const Atom last = normalized(access.map).dims[dim].back();
    return last.extent > 1 && last.stride == 1;
}

/// Do more of the loads whose elements each belong to one result and one term lie together by results than by terms? Do
/// all results take the same terms, so that a warp for each would read them all anew? What a term reads where data says lies
/// together by results if all results have one place there, and by terms if all terms have.
bool lies_in_columns(const Expr& term, std::size_t outer, std::size_t inner) {
    std::int64_t by_result = 0;
    bool shares_terms = true;
    for (const Access& access : term.accesses) {
        const bool with_result = moves_along(access.map, outer), with_term = moves_along(access.map, inner);
        const bool own = !access.indirect.empty() || (with_result && with_term);
        shares_terms = shares_terms && !own;
        if (!own) continue;
        by_result += static_cast<int>(steps(access, outer)) - static_cast<int>(steps(access, inner));
        if (!access.indirect.empty())
            by_result += static_cast<int>(with_term) - static_cast<int>(with_result);
    }
    return shares_terms || by_result > 0;
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
    const std::int64_t results = volume(Shape(region.space.begin(), region.space.begin() + region.kept));
    const std::size_t outer = last_dim(region.space, 0, kept);
    const bool few = results <= kFewResults && volume(reduced) > kReduceSums;
    if (region.ragged || (volume(reduced) < kManyTerms && !few))
        return {Way::Own, results_of_lane(region, outer), outer};
    const Expr& term = region.reductions.front().term;
    const std::size_t inner = last_dim(region.space, kept, region.space.size());
    const bool columns =
        outer != kept && region.space[outer] >= abi::kReduceColumns && lies_in_columns(term, outer, inner);
    if (columns) return {Way::Columns, group_length(term, outer, region.space[outer], false), outer};
    const bool one_row = volume(reduced) == region.space[inner];
    const std::int64_t together = group_length(term, inner, region.space[inner], one_row);
    const bool alone = together > 1 && volume(reduced) <= kMostGroups * together &&
                       volume(region.space) >= kManyRows * volume(reduced) && region.element_stores.empty();
    if (alone) return {Way::Alone, together, inner};
    const std::int64_t row_of_all = results <= kFewRows ? kRowOfFew : kRowOfAll;
    const Way way = volume(reduced) < row_of_all ? Way::Along : Way::Together;
    if (region.space[inner] < kLongRow) return {way};
    return {way, together, inner};
}

std::int64_t results_at_once(const ReduceRegion& region, std::int64_t warps) {
    switch (reduce_lanes(region).way) {
        case ReduceLanes::Way::Along:
            return warps;
        case ReduceLanes::Way::Together:
            return 1;
        case ReduceLanes::Way::Own:
        case ReduceLanes::Way::Alone:
            return warps * kLanesOfWarp;
        case ReduceLanes::Way::Columns:
            return abi::kReduceColumns;
    }
    throw InternalError("a reduction is dealt in an unknown way");
}

}  // namespace stretto
