#pragma once

#include "base/machine.h"
#include "base/plan_options.h"
#include "schedule/plan.h"

namespace stretto {

/// Places tasks on workers, orders them, picks a hand-off for every dependency and lays out the weight
/// streams. Requires: tile's output.  Ensures: every `after` of a task is enforced by queue order, by waits,
/// or by both together; queue orders and waits together have no cycle; loads are in consumption order. Why
/// here: memory can only reuse what the plan orders.
[[nodiscard]] Plan schedule(TaskGraph tasks, const Machine& machine, const PlanOptions& options = {});

}  // namespace stretto
