#pragma once

#include <vector>

#include "abi/abi.h"
#include "schedule/plan.h"

namespace stretto {

/// A plan as the device reads it, in package form (buffer ids instead of addresses).
struct Records {
    std::vector<abi::Record> records;
    std::vector<abi::Load> loads;
    std::vector<abi::WorkerRange> workers;
};

/// `kind_of_region[r]` is the kind number of region r.
/// Throws InternalError naming the task if the plan does not fit the record layout.
[[nodiscard]] Records make_records(const Plan& plan, const std::vector<std::uint32_t>& kind_of_region);

}  // namespace stretto
