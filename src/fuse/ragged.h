#pragma once

#include "fuse/region.h"

namespace stretto {

/// The left side of a ragged product with its range as a condition: zero where a row's k does not count. For whatever sums
/// over all k.
[[nodiscard]] Expr counted_left_side(const MatMulRegion& region);

}  // namespace stretto
