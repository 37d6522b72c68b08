#pragma once

#include <vector>

#include "tile/task.h"

namespace stretto {

/// What one task of `region` with this tile reads and writes. Requires: the tile is inside the region's space.
/// Throws InternalError where a store of the tile is not a box (a write must be exact).
struct Footprints {
    std::vector<Footprint> reads;
    std::vector<Footprint> writes;
};
[[nodiscard]] Footprints footprints(const RegionGraph& graph, const Region& region,
                                    const std::array<Range, 4>& tile);

}  // namespace stretto
