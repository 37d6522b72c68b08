#pragma once

#include <string>
#include <vector>

#include "fuse/region.h"

namespace stretto {

/// A name for each region that repeated parts of a model share, so that times can be compared across them: numbers
/// between dots become '*', what all names begin with is left out, kind and extents follow. Regions that would be
/// confused within one part are numbered: "layers.*.attn matmul 192x576 (2)".
[[nodiscard]] std::vector<std::string> phase_names(const RegionGraph& graph);

}  // namespace stretto
