#pragma once

#include <vector>

#include "schedule/plan.h"

namespace stretto {

/// Adds the loads that a task consumes to the stream of its worker, which has `warps` consumer warps, in the order of
/// consumption.
void append_loads(const TaskGraph& graph, TaskId id, std::int32_t warps, std::vector<Load>& stream);

/// Bytes of a ring slot that a load fills.
[[nodiscard]] std::int64_t slot_bytes(const Load& load);

/// May such a load's bytes be kept as an image of its slot: are they a panel without a hole where a row could be, of a tensor
/// that no launch changes?
[[nodiscard]] bool can_pack(BufferRole role, std::int64_t rows);

/// Bytes of the images of all loads that can be packed.
[[nodiscard]] std::int64_t packed_bytes(const Plan& plan);

}  // namespace stretto
