#pragma once

#include "verify/faults.h"

namespace stretto::verifying {

/// Checks that each worker's loads are exactly what its tasks consume, in order, that no load needs what the
/// launch computes, and that the ring holds what a task needs at once.
void check_streams(const Plan& plan, FaultList& faults);

}  // namespace stretto::verifying
