#pragma once

#include <map>

#include "schedule/plan.h"

namespace stretto {

/// The buffers that can end a launch: Bool states of one element that exactly one task writes. With each the number of
/// the worker that runs this task.
using StopWorkers = std::map<BufferId, std::uint32_t>;

[[nodiscard]] StopWorkers stop_workers(const Plan& plan);

/// Throws UserError where `stop` cannot end a launch.
[[nodiscard]] std::uint32_t stop_worker(const StopWorkers& workers, BufferId stop);

}  // namespace stretto
