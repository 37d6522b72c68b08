#pragma once

#include "base/machine.h"
#include "fuse/region.h"

namespace stretto {

/// Joins sums over the same context positions of the same rows that share a score: it is computed once for both, and so is what
/// their weights have in common. In the backward pass of attention these are the sums for keys and values. Only sums with
/// factors are joined, without a softmax of their own, where the joined region has a tile (cut_scored: with wide factors the
/// sums of both do not fit into registers) and none waits for the other. Regions between the two may change places.
/// Requires: regions in program order.  Ensures: the same results.
void join_scored(RegionGraph& graph, const Machine& machine);

}  // namespace stretto
