#include "fuse/reduce_lanes.h"

#include <algorithm>

#include "abi/abi.h"

namespace stretto {
namespace {

constexpr std::int64_t kManyTerms = 32;  ///< fewer do not occupy the shares
constexpr std::int64_t kLongRow = 256;   ///< shorter rows leave lanes without a vector

/// The last dimension in [begin, end) of more than one position; `end` where there is none.
std::size_t last_dim(const Shape& space, std::size_t begin, std::size_t end) {
    for (std::size_t d = end; d-- > begin;) {
        if (space[d] > 1) return d;
    }
    return end;
}

/// As many neighbours along `dim` as fill 16 bytes of the narrowest elements that lie together; 1 where none do.
std::int64_t vector_along(const Expr& term, std::size_t dim, std::int64_t extent) {
    for (std::int64_t count = 8; count > 1; count /= 2) {
        const bool gains = extent % count == 0 &&
                           std::any_of(term.accesses.begin(), term.accesses.end(), [&](const Access& access) {
                               return access.indirect.empty() && lies_in_groups(access.map, dim, count) &&
                                      count * static_cast<std::int64_t>(size_of(access.type)) <= 16;
                           });
        if (gains) return count;
    }
    return 1;
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

}  // namespace

ReduceLanes reduce_lanes(const ReduceRegion& region) {
    using Way = ReduceLanes::Way;
    const auto kept = static_cast<std::size_t>(region.kept);
    const Shape reduced(region.space.begin() + region.kept, region.space.end());
    if (region.ragged || volume(reduced) < kManyTerms) return {Way::Own};
    const std::size_t inner = last_dim(region.space, kept, region.space.size());
    const std::size_t outer = last_dim(region.space, 0, kept);
    const bool columns = outer != kept && region.space[outer] >= abi::kReduceColumns &&
                         (loads_along(region.term, outer) > loads_along(region.term, inner) ||
                          shares_terms(region.term, outer, inner));
    if (columns) return {Way::Columns, vector_along(region.term, outer, region.space[outer]), outer};
    if (region.space[inner] < kLongRow) return {};
    return {Way::Along, vector_along(region.term, inner, region.space[inner]), inner};
}

}  // namespace stretto
