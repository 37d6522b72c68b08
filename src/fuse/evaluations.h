#pragma once

#include "base/machine.h"
#include "graph/graph.h"

namespace stretto {

/// Evaluations of one worker where all share `total`. Fewer than a worker has lanes take no less time.
[[nodiscard]] double worker_share(double total, const Machine& machine);

/// How often one worker evaluates an element of `id` in a launch, where `id` is computed anew wherever `user` reads it and
/// `user` is computed once.
[[nodiscard]] double evaluations(const Graph& graph, ValueId user, ValueId id, const Machine& machine);

}  // namespace stretto
