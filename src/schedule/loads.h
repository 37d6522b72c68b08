#pragma once

#include <vector>

#include "schedule/plan.h"

namespace stretto {

/// Adds the loads that a task consumes to its worker's stream, in the order of consumption.
void append_loads(const TaskGraph& graph, TaskId id, std::vector<Load>& stream);

/// Bytes of a ring slot that a load fills.
[[nodiscard]] std::int64_t slot_bytes(const Load& load);

}  // namespace stretto
