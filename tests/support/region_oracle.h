#pragma once

#include <vector>

#include "fuse/region.h"
#include "support/oracle.h"

namespace stretto {

/// Evaluates regions one after the other in double, as plainly as possible; each expression node and each stored
/// element is rounded to its type. `buffers` holds the elements of every buffer by id, before and after.
void evaluate(const RegionGraph& graph, std::vector<Elements>& buffers);

}  // namespace stretto
