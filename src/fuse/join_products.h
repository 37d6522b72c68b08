#pragma once

#include "fuse/region.h"

namespace stretto {

/// Joins an element-wise region into the product of many rows, or the sums of columns, whose results it reads, position by
/// position: the product stores what both stored, from its sums, and what nobody else reads is not stored. So an optimizer's
/// step is the end of the product that gives a weight's gradient, or of the sums that give a bias's.
/// Requires: regions in program order, and element-wise regions that fit joined with each other (fuse/join).
/// Ensures: the same results.
void join_products(RegionGraph& graph);

}  // namespace stretto
