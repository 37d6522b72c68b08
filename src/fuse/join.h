#pragma once

#include "fuse/region.h"

namespace stretto {

/// Joins element-wise regions over one space into one with several stores, where they read the same elements or one reads
/// what the other writes, element for element: elements are then loaded once, and what nobody else reads is not stored.
/// Requires: regions in program order. Ensures: the same results; a store that reads an element stands before the store
/// that changes it, so that all loads of a position may come before its stores.
/// Why here: which values share a buffer is known only after updates in place have been ordered.
void join_maps(RegionGraph& graph);

}  // namespace stretto
