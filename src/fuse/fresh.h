#pragma once

#include "graph/graph.h"

namespace stretto {

/// Lets attention take a row that this step writes into a state directly: where the keys (or values) of an attention
/// are a state after an update of one row, and only attentions read the updated state, the attention reads the state as
/// it was and gets the row as an expression (FreshRow). What computes the row is then the attention's own input, and the
/// update itself waits for nobody's sake.
/// Requires: check(graph).  Ensures: check(result), with the same results and state updates.
[[nodiscard]] Graph with_fresh_rows(Graph graph);

}  // namespace stretto
