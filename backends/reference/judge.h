#pragma once

#include <string>
#include <vector>

#include "schedule/plan.h"

namespace stretto {

/// Judges a plan by exhaustion: for every task, plays the plan with that task held back for ever; what then never
/// starts is ordered after it, and nothing else is. With this exact order it checks every pair of tasks byte by byte.
/// Slow and simple on purpose (tasks^2 plays and pairs); shares no code with verify, schedule and memory.
/// Returns one line per fault: malformed tables, a plan that gets stuck, events that receive another number of signals
/// than they state, pairs of tasks that touch the same bytes in no order or in the wrong one, reads of arena bytes that
/// nobody wrote or that another buffer overwrote, output bytes that nobody writes, two writers in one region, boxes
/// outside their buffers. Does not look at streams and shared memory.
[[nodiscard]] std::vector<std::string> exhaustive_check(const Plan& plan);

}  // namespace stretto
