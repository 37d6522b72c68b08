#pragma once

#include "graph/graph.h"

namespace stretto {

/// A product whose left side is normalized computes the statistics of its few rows itself while it stages them (a prologue, see
/// decide), but only where nobody else reads them: an update's backward pass does. Then such a product gets statistics of
/// its own, and what it makes of them: those that wait for what the left side itself waits for last. The others are there by
/// then. So does an attention in parts, for its query rows: its tasks are the only ones to wait for them, as words.
/// Requires: check(graph).  Ensures: check(result), with the same results and state updates.
[[nodiscard]] Graph with_own_statistics(const Graph& graph);

}  // namespace stretto
