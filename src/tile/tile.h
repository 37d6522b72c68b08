#pragma once

#include "base/machine.h"
#include "base/plan_options.h"
#include "tile/task.h"

namespace stretto {

/// Cuts every region into tasks sized to the machine and finds what each must come after.
/// Requires: regions in program order.  Ensures: every byte that a region writes has exactly one writing task
/// in it; `after` covers every conflict between tasks of different regions. Why here: the grain of the work
/// decides both balance and dependencies; placing tasks needs both.
[[nodiscard]] TaskGraph tile(RegionGraph regions, const Machine& machine, const PlanOptions& options = {});

}  // namespace stretto
