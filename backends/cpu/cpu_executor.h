#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "backends/executor.h"

namespace stretto {

struct CpuOptions {
    std::int32_t consumer_warps = 8;  ///< of the machine that the plan is for: it decides the order of sums
    std::chrono::milliseconds time_out{60'000};  ///< longest wait for one event
    std::uint64_t delay_seed = 0;                ///< with max_delay: which delays
    std::chrono::microseconds max_delay{0};  ///< longest pause put before tasks and before signals, for tests
    bool traced = false;                     ///< Keeps times of each launch.
};

/// Runs a plan with one thread per worker and the plan's own events; more workers than processors work too. Results do
/// not depend on timing. `run` throws RunError naming worker, task and event where a wait times out; the executor can
/// be used again after that.
[[nodiscard]] std::unique_ptr<Executor> make_cpu_executor(Plan plan, const CpuOptions& options = {});

}  // namespace stretto
