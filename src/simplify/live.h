#pragma once

#include <vector>

#include "graph/graph.h"

namespace stretto {

/// For each value whether an output needs it. Inputs do count, but for constants: they are the program's signature.
[[nodiscard]] std::vector<bool> live_values(const Graph& graph);

/// The graph with those values only.
[[nodiscard]] Graph without_dead_values(const Graph& graph);

}  // namespace stretto
