#pragma once

#include "graph/graph.h"

namespace stretto {

/// Rewrites a graph into a smaller one with the same results: folds constants, removes dead and repeated
/// nodes, inlines expressions that only rename or convert, reads the one term of a sum that counts. Requires: check(graph).  Ensures: check(result);
/// same outputs. Why here: everything after it works per node, so fewer nodes is less work for all of them.
[[nodiscard]] Graph simplify(const Graph& graph);

}  // namespace stretto
