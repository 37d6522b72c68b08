#pragma once

#include "fuse/region.h"

namespace stretto {

/// How a worker's consumer threads share the staging of a product's left side. It decides the order in which the sums of
/// row statistics are added: thread t of a row adds the terms of groups t, t + threads, ... of neighbours.
struct LeftShares {
    std::int64_t row_warps = 1;  ///< stage one row together, while others stage other rows
    std::int64_t width = 1;      ///< neighbours of a row that a thread loads and stages together
};

/// Requires: the product is not one in tiles, whose left side is copied as it lies. `warps`: consumer warps of a worker.
[[nodiscard]] LeftShares left_shares(const MatMulRegion& region, std::int64_t warps);

}  // namespace stretto
