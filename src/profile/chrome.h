#pragma once

#include <string>
#include <string_view>

#include "base/machine.h"
#include "profile/trace.h"
#include "schedule/plan.h"

namespace stretto {

/// A trace as JSON that ui.perfetto.dev and chrome://tracing open. Three groups of rows, a row for each worker: its
/// tasks (waiting, staging, computing), the publishing of their results, and its loads, whose ends are estimated (see
/// bus_time). Arrows are the hand-offs on the critical path.
/// Requires: verify(plan) is empty; `trace` is of a launch of `plan`.
[[nodiscard]] std::string to_chrome(const Trace& trace, const Plan& plan, const Machine& machine);

/// Reads back what `to_chrome` wrote, all times as they were. Throws UserError naming `what` (a file, say) where the
/// text is something else, or of another plan.
[[nodiscard]] Trace parse_chrome(std::string_view text, const Plan& plan, std::string_view what);

}  // namespace stretto
