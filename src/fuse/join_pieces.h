#pragma once

#include "fuse/region.h"

namespace stretto {

/// Maps that only put intermediates beside one another, along one dimension, go: whatever stores a piece stores it where it is
/// read. Pieces that anything else reads, or that several stores fill, keep their map.
/// Requires: regions in program order.  Ensures: the same results.
void store_pieces_joined(RegionGraph& graph);

}  // namespace stretto
