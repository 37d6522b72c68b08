#pragma once

#include <vector>

#include "cost/simulate.h"
#include "profile/trace.h"
#include "schedule/plan.h"

namespace stretto {

/// One task on the chain that decided how long a launch took. It owns the time from its predecessor's end to its own;
/// the four parts add up to that. Microseconds.
struct Hop {
    TaskId task;
    std::size_t worker = 0;
    bool handed_over = false;  ///< its predecessor ran on another worker
    double wait = 0;           ///< until its inputs were there
    double stage = 0;
    double compute = 0;
    double stalled = 0;    ///< part of `compute`: waiting for weights
    double publish = 0;    ///< until its successor saw its results, or had its worker
    double simulated = 0;  ///< the same span in the simulated launch
    [[nodiscard]] double total() const { return wait + stage + compute + publish; }
    bool operator==(const Hop&) const = default;
};

/// Follows a measured launch back from its last task: to the task it depends on that published last, or, where its
/// worker was busy for longer, to the one before it in the queue.
/// Ensures: the hops' times add up to trace.total, and `simulated` to the end of the last hop in `simulation`.
[[nodiscard]] std::vector<Hop> critical_path(const Plan& plan, const Trace& trace,
                                             const Simulation& simulation);

}  // namespace stretto
