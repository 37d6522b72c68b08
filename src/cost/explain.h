#pragma once

#include <string>

#include "base/machine.h"
#include "schedule/plan.h"

namespace stretto {

/// A report for people: regions and their tasks, hand-offs, bytes, predicted time, the critical path hop by hop, and
/// what is copied because no view could express it.
/// Requires: verify(plan) is empty.
[[nodiscard]] std::string explain(const Plan& plan, const Machine& machine);

/// How the plan orders two tasks: the shortest chain of queue order and hand-offs from one to the other, or that there
/// is none. Works on plans that do not verify. Throws UserError on a task number that the plan does not have.
[[nodiscard]] std::string explain_tasks(const Plan& plan, TaskId a, TaskId b);

}  // namespace stretto
