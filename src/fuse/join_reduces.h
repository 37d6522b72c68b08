#pragma once

#include "base/machine.h"
#include "fuse/region.h"

namespace stretto {

/// Joins reductions of the same rows into one region with several results, where their terms read the same elements, or one
/// reads another's result of its own row: a row's second pass finds it close by, a shared pass reads it once, and what nobody
/// else reads is not stored. Reductions that do not know each other are joined only where both have tasks for most workers;
/// else they are side by side. So does element-wise work join that reads their results, each in its own row, where warps have
/// rows enough for most workers.
/// None waits for more than it did: what a region reads must come from before the other, too.
/// Requires: regions in program order. Ensures: the same results, bit by bit.
/// Why here: at the end of fuse, when it is settled in which order each region takes its terms (reduce_lanes).
void join_reduces(RegionGraph& graph, const Machine& machine);

}  // namespace stretto
