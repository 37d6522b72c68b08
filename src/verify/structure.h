#pragma once

#include "verify/faults.h"

namespace stretto::verifying {

/// Checks that every id, range and size is inside its table, that every task is scheduled exactly once, that
/// boxes fit their buffers and buffers the arena, and that nothing exceeds what a record or the machine can
/// hold. Returns whether the other checks can trust the plan's tables.
bool check_structure(const Plan& plan, FaultList& faults);

}  // namespace stretto::verifying
