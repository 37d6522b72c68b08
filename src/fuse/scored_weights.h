#pragma once

#include <cstdint>
#include <vector>

#include "fuse/region.h"

namespace stretto {

/// The weights of all sums of a scored region as nodes of one expression, which has what they share once.
struct ScoredWeights {
    Expr expr;
    std::vector<std::int32_t> nodes;
};

/// The weights as they are best computed for many pairs of a row and a position, with other roundings: what all positions of a row
/// share, or all rows of a position, stands alone (of a divisor its reciprocal, of a hidden score its exponential), and
/// differences of products with a common factor are one product. With `within` they are for pairs inside the band only, whose comparisons need not be made there.
[[nodiscard]] ScoredWeights quick_weights(const ScoredRegion& region, bool within);

}  // namespace stretto
