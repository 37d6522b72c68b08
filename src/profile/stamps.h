#pragma once

#include <vector>

#include "abi/abi.h"
#include "profile/trace.h"
#include "schedule/plan.h"

namespace stretto {

/// The stamps of one traced launch as the device wrote them.
struct Stamps {
    std::vector<abi::TaskStamps> tasks;      ///< by task
    std::vector<abi::U64> loads;             ///< of all workers, one after the other
    std::vector<abi::WorkerStamps> workers;  ///< by worker
};

/// Places all stamps on one clock: each worker's SM clock is read as a straight line through its two pairs.
/// Requires: stamps of a launch of `plan` that ended well.  Ensures: times of one worker keep their order.
[[nodiscard]] Trace align(const Stamps& stamps, const Plan& plan);

/// Moves 0 to the earliest time, and sets `total`.
void start_at_zero(Trace& trace);

}  // namespace stretto
