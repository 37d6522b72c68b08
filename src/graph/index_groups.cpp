#include "graph/index_groups.h"

#include <algorithm>

namespace stretto {
namespace {

/// Of the digit that steps from one element of a group to the next.
bool masks_whole_groups(const Atom& run, std::int64_t count) {
    return run.lo % count == 0 && (run.hi % count == 0 || run.hi == run.extent);
}

}  // namespace

bool lies_in_groups(const IndexMap& map, std::size_t dim, std::int64_t count) {
    const IndexMap plain = normalized(map);
    if (plain.offset % count != 0) return false;
    const Atom& run = plain.dims[dim].back();
    if (run.stride != 1 || run.extent == 1 || !masks_whole_groups(run, count) ||
        (plain.dims[dim].size() > 1 && run.extent % count != 0))
        return false;
    const auto steps_over = [&](const Atom& digit) {
        return &digit == &run || digit.extent == 1 || digit.stride % count == 0;
    };
    return std::all_of(plain.dims.begin(), plain.dims.end(), [&](const std::vector<Atom>& digits) {
        return std::all_of(digits.begin(), digits.end(), steps_over);
    });
}

bool moves_within_groups(const IndexMap& map, std::size_t dim, std::int64_t count) {
    const IndexMap plain = normalized(map);
    const Atom& last = plain.dims[dim].back();
    return last.stride != 0 || !masks_whole_groups(last, count) ||
           (plain.dims[dim].size() > 1 && last.extent % count != 0);
}

bool moves_along(const IndexMap& map, std::size_t dim) {
    return std::any_of(map.dims[dim].begin(), map.dims[dim].end(),
                       [](const Atom& digit) { return digit.extent > 1 && digit.stride != 0; });
}

bool is_uniform(const IndexMap& map) {
    if (map.masked()) return false;
    for (std::size_t d = 0; d < map.rank(); ++d) {
        if (moves_along(map, d)) return false;
    }
    return true;
}

}  // namespace stretto
