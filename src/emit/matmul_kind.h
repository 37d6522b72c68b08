#pragma once

#include "emit/cuda_file.h"
#include "fuse/region.h"

namespace stretto {

/// As kind_of. Requires: the region's body is a MatMulRegion.
[[nodiscard]] CudaKind matmul_kind(const RegionGraph& graph, const Region& region, std::int64_t warps);

}  // namespace stretto
