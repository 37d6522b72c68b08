#pragma once

#include "fuse/region.h"

namespace stretto {

/// Exchanges rows and columns of intermediates that scored regions store column by column, so that a row's neighbours lie
/// together and are stored in one piece: the program has a result transposed where its weights were a right side, and all its
/// readers are views. Intermediates with a reader whose view cannot be turned stay.
/// Requires: regions in program order.  Ensures: the same results.
void lay_out_rows(RegionGraph& graph);

}  // namespace stretto
