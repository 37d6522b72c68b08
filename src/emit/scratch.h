#pragma once

#include "tile/task.h"

namespace stretto {

/// Bytes of shared memory that the device kind of `region` uses beside the ring for a task of this tile.
[[nodiscard]] std::int64_t device_scratch_bytes(const Region& region, const std::array<Range, 4>& tile,
                                                std::int64_t warps);

}  // namespace stretto
