#pragma once

#include "emit/cuda_file.h"
#include "fuse/region.h"

namespace stretto {

/// The task kind of a region, with its expressions over operand slots instead of buffers, so that equal layers give
/// equal kinds, for workers of so many consumer warps. Its functor has no name yet.
[[nodiscard]] CudaKind kind_of(const RegionGraph& graph, const Region& region, std::int64_t warps);

/// A type name made of the last part of a region's name: "layers.3.mlp.down_proj#41" gives "DownProj".
[[nodiscard]] std::string type_name(const std::string& region_name);

}  // namespace stretto
