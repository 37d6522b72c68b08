#pragma once

#include <optional>
#include <vector>

#include "base/machine.h"
#include "profile/trace.h"
#include "schedule/plan.h"

namespace stretto {

/// How the loads of a measured launch used the memory bus, estimated: each transfer begins when its load was issued,
/// and all under way share the machine's bandwidth. Reads outside the streams are left out. Microseconds.
struct BusTime {
    double idle = 0;                          ///< of the launch: no load is under way
    std::vector<std::vector<double>> landed;  ///< by worker, by load of its stream
};

/// Nothing where the trace has no loads.
[[nodiscard]] std::optional<BusTime> bus_time(const Plan& plan, const Trace& trace, const Machine& machine);

}  // namespace stretto
