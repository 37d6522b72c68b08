#pragma once

#include "fuse/region.h"

namespace stretto {

/// Few long rows are reduced in parts, and then the parts' results: the sum of exponentials less a row's maximum waits for two
/// stages of the maximum. With a(p) the maximum of part p and m that of the row,
///   sum over p, k of exp(x(p, k) - m) = sum over p of exp(a(p) - m) * sum over k of exp(x(p, k) - a(p)):
/// the parts need their own maximum only, and join_reduces makes one region of each stage.
/// Requires: regions in program order.  Ensures: the same results but for roundings.
void shift_parts(RegionGraph& graph);

}  // namespace stretto
