#pragma once

#include "fuse/region.h"

namespace stretto {

/// Joins the three sums of a softmax whose weights a factor is mixed with: the maximum of each row, the sum of exponentials
/// less that maximum, and the mix of their quotients become one region, which keeps both statistics up while it mixes
/// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018) and stores those that others read.
/// Requires: regions in program order.  Ensures: the same results.
void join_softmax(RegionGraph& graph);

}  // namespace stretto
