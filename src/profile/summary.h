#pragma once

#include <string>

#include "base/machine.h"
#include "profile/trace.h"
#include "schedule/plan.h"

namespace stretto {

/// One page for people: where the time of a measured launch went, beside the simulated one. Totals, an average worker,
/// the critical path by phase, each phase's tasks, stragglers.
/// Requires: verify(plan) is empty; `trace` is of a launch of `plan`.
[[nodiscard]] std::string summary(const Plan& plan, const Trace& trace, const Machine& machine);

/// The critical path of a measured launch hop by hop, with the simulated time of each. Requirements as for `summary`.
[[nodiscard]] std::string hop_report(const Plan& plan, const Trace& trace, const Machine& machine);

}  // namespace stretto
