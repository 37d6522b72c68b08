#pragma once

#include <vector>

#include "base/machine.h"
#include "graph/graph.h"
#include "schedule/plan.h"

namespace stretto {

/// A machine on which even small graphs have several tasks a region and a ring of several slots.
[[nodiscard]] Machine small_machine(int workers);

/// All stages from graph to arena offsets; nothing is verified.
[[nodiscard]] Plan planned(const Graph& graph, const Machine& machine);

/// Plans of small graphs of every region kind: a gated MLP with a norm, a state update, a softmax, a training update, a decode
/// step, the gradients of attention.
[[nodiscard]] std::vector<Plan> real_plans();

}  // namespace stretto
