#pragma once

#include <array>
#include <string>
#include <variant>
#include <vector>

#include "profile/critical_path.h"

namespace stretto {

/// Parts of a time, in microseconds.
struct Parts {
    double wait = 0;
    double stage = 0;
    double compute = 0;
    double stalled = 0;  ///< part of `compute`: waiting for weights
    [[nodiscard]] double total() const { return wait + stage + compute; }
};

/// What an average worker did with the time of a launch. All parts and `idle` add up to trace.total.
struct MeanWorker {
    std::array<Parts, std::variant_size_v<RegionBody>> kinds;  ///< by index of RegionBody
    std::array<double, std::variant_size_v<RegionBody>> tasks{};
    double idle = 0;  ///< before its first task, between tasks, after its last
};

[[nodiscard]] MeanWorker mean_worker(const Plan& plan, const Trace& trace);

/// All tasks of one phase (see phase_names). Microseconds.
struct Phase {
    std::string name;
    std::size_t tasks = 0;
    Parts median;
    double publish = 0;              ///< median
    double sum_running = 0;          ///< of all tasks, from ready to computed
    double slowest = 0;              ///< longest time from ready to computed
    std::vector<TaskId> stragglers;  ///< took more than twice the phase's median from ready to computed
    // On the critical path:
    std::size_t hops = 0;
    double sum_hops = 0;   ///< of its hops' times
    double hop_total = 0;  ///< median of its hops' times
    Hop hop;               ///< medians of its hops' parts and of their simulated times
};

/// In the order of their first regions.
[[nodiscard]] std::vector<Phase> phases(const Plan& plan, const Trace& trace, const std::vector<Hop>& path);

}  // namespace stretto
