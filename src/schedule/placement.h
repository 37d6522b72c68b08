#pragma once

#include <vector>

#include "base/machine.h"
#include "tile/task.h"
#include "tile/work.h"

namespace stretto {

/// The tasks of every worker, in the order in which it runs them. Tasks are taken in order; each goes where it can start
/// first, and among equals to the worker that streams the fewest bytes so far, so that streams stay balanced. Where weights
/// stream, tasks that nobody waits for are dealt out: what they take is latency, which estimates miss, and one worker that
/// seems to be free a little earlier would get a row of them, in front of its next product. Elsewhere such tasks of maps are
/// fillers: they are placed last, in the gaps between a worker's other tasks.
[[nodiscard]] std::vector<std::vector<TaskId>> place_tasks(const TaskGraph& graph, const Machine& machine);

/// Do the weights of half of the products come through the stream?
[[nodiscard]] bool streams(const RegionGraph& graph);

/// Bytes that a task takes from its worker's stream.
[[nodiscard]] std::int64_t streamed_bytes(const TaskGraph& graph, const Task& task);

/// Microseconds that a task takes on a worker with its share of the memory bus.
[[nodiscard]] double duration(const TaskGraph& graph, TaskId task, const WorkEstimate& estimate,
                              const Machine& machine);

}  // namespace stretto
