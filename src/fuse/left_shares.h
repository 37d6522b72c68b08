#pragma once

#include "fuse/region.h"

namespace stretto {

/// How a worker's consumer threads share the staging of a product's left side. It decides the order in which the sums of
/// row statistics are added: thread t of a row adds the terms of groups t, t + threads, ... of neighbours.
struct LeftShares {
    std::int64_t row_warps = 1;  ///< stage one row together, while others stage other rows
    std::int64_t width = 1;      ///< neighbours of a row that a thread loads and stages together
    std::int64_t depth = 0;      ///< values of k that are in shared memory at one time
};

/// Requires: the product, of a region of `graph`, is not one in tiles, whose left side is copied as it lies. `warps`: consumer
/// warps of a worker.
[[nodiscard]] LeftShares left_shares(const RegionGraph& graph, const MatMulRegion& region,
                                     std::int64_t warps);

/// Values of k of the left side that are in shared memory at one time: all, or some pieces of a panel.
[[nodiscard]] std::int64_t staged_depth(const MatMulRegion& region, std::int64_t warps);

/// Panels of a task at most. A left side that is staged in parts passes once, so that all sums are kept until its end.
[[nodiscard]] std::int64_t most_panels(const MatMulRegion& region, std::int64_t warps);

}  // namespace stretto
