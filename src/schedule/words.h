#pragma once

#include <vector>

#include "base/machine.h"
#include "schedule/plan.h"

namespace stretto {

/// Marks the arena buffers that are handed over as epoch-tagged words: those whose readers can all wait for the
/// elements themselves, where polling costs less than
/// `up_to` counters by the machine's costs, and where at least one
/// region then needs no counter for what it reads. Those of floats that many ask for are packed. `worker_of` is by task.
void choose_words(TaskGraph& graph, const std::vector<std::int32_t>& worker_of, const Machine& machine,
                  double up_to = 1);

/// `after` of every task without what the words of tagged buffers carry: the orders that are left to queues, counters
/// and barriers.
[[nodiscard]] std::vector<std::vector<Range>> orders_beside_words(const TaskGraph& graph);

}  // namespace stretto
