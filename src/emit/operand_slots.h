#pragma once

#include <vector>

#include "fuse/region.h"

namespace stretto {

/// The distinct buffers of a region in order of first use: operand i of its records is buffer i.
/// Throws InternalError naming the region if a record has no room for them.
[[nodiscard]] std::vector<BufferId> operand_slots(const Region& region);

}  // namespace stretto
