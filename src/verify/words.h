#pragma once

#include "verify/faults.h"

namespace stretto::verifying {

/// Checks what every tagged buffer must be: an arena buffer of 16- or 32-bit elements whose stores have known places
/// and whose readers can wait for its words. Requires: the plan's tables are sound.
void check_words(const Plan& plan, FaultList& faults);

}  // namespace stretto::verifying
