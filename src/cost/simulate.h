#pragma once

#include <vector>

#include "base/machine.h"
#include "schedule/plan.h"

namespace stretto {

/// Prediction of one launch. Times in microseconds.
struct Simulation {
    struct Span {
        double ready = 0;  ///< its waits hold
        double start = 0;
        double end = 0;
    };
    double total = 0;
    double bus_idle = 0;      ///< time in which no load or read is in flight
    std::vector<Span> tasks;  ///< by task
    std::vector<TaskId>
        critical_path;           ///< from the first task to the last; consecutive ones hand off or queue
    std::int32_t hand_offs = 0;  ///< waits between different workers on the critical path
};

/// Plays a plan by discrete events: workers run their queues, loaders run ahead through the ring at the
/// machine's bandwidth, hand-offs cost what the machine says. Requires: verify(plan) is empty.
[[nodiscard]] Simulation simulate(const Plan& plan, const Machine& machine);

}  // namespace stretto
