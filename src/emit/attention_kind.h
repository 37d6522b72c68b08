#pragma once

#include "emit/cuda_file.h"
#include "fuse/region.h"

namespace stretto {

/// As kind_of. Requires: the region's body is an AttentionRegion.
[[nodiscard]] CudaKind attention_kind(const RegionGraph& graph, const Region& region);

}  // namespace stretto
