#pragma once

#include <vector>

#include "backends/executor.h"
#include "schedule/owner.h"

namespace stretto {

/// The iterations of one launch whose buffers are in host memory.
class RunningLaunch {
public:
    /// Throws UserError where `iterations` does not fit the plan.
    RunningLaunch(const StopWorkers& stop_workers, const std::vector<std::byte*>& bases,
                  const Iterations& iterations);

    /// Called once at the end of every iteration, when all of its writes are done: tells the host, and says whether
    /// another iteration follows.
    [[nodiscard]] bool goes_on();

private:
    Iterations iterations_;
    const std::byte* stop_ = nullptr;
    std::uint32_t done_ = 0;
};

}  // namespace stretto
