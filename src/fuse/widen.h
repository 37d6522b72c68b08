#pragma once

#include "fuse/region.h"

namespace stretto {

/// Stores small narrow-float intermediates as F32, so that a chain of regions rounds no more than one region does
/// (`Numerics::Fused`). An intermediate stays narrow where nothing would gain: where it is only rounded to its own
/// type again, is an operand that a main loop reads as it is, or is so large that its traffic counts. Roundings that
/// stood between regions that have joined go, too.
void widen_intermediates(RegionGraph& graph);

}  // namespace stretto
