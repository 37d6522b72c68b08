#pragma once

#include <vector>

#include "schedule/plan.h"

namespace stretto {

/// Adds the loads that a task consumes to the stream of its worker, which has `warps` consumer warps, in the order of
/// consumption.
void append_loads(const TaskGraph& graph, TaskId id, std::int32_t warps, std::vector<Load>& stream);

/// Bytes of a ring slot that a load fills.
[[nodiscard]] std::int64_t slot_bytes(const Load& load);

}  // namespace stretto
