#pragma once

#include <vector>

#include "fuse/region.h"

namespace stretto {

/// What a reduction computes as it goes through the terms of a row once: the terms of neighbouring reductions, which use the
/// results of earlier passes only, as nodes of one expression, which has what they share once.
struct Pass {
    Range reductions;  ///< numbers
    Expr expr;
    std::vector<std::int32_t> nodes;  ///< its results, by reduction of the pass
};

/// The passes of a region, in order.
[[nodiscard]] std::vector<Pass> passes_of(const ReduceRegion& region);

/// Orders the reductions, and renumbers them where they are used, so that there are as few passes as can be. The first
/// reduction stays the first.
void sort_by_pass(ReduceRegion& region);

}  // namespace stretto
