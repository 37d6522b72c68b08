#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backends/executor.h"

namespace stretto {

/// Which of the tasks that may start goes next.
enum class Order : std::uint8_t {
    TaskNumber,  ///< the smallest task number
    Random,      ///< any, by seed
    LastWorker,  ///< the last worker that can go on
    Starve,      ///< one worker, chosen by seed, goes on only when no other can
    DepthFirst,  ///< the worker that went last, as long as it can
};

struct ReferenceOptions {
    Order order = Order::TaskNumber;
    std::uint64_t seed = 0;
    std::int32_t consumer_warps = 8;  ///< of the machine that the plan is for: it decides the order of sums
    /// Unless empty, called for each arena buffer when the last of the regions that write it is done: that region, and
    /// the buffer's elements.
    std::function<void(RegionId, BufferId, std::span<const std::byte>)> stored{};
};

/// Runs a plan one task at a time, in any order that its queues and waits allow, and watches every element that a task
/// touches. Throws RunError where nothing can go on (naming workers, tasks and events), and where a task reads bytes
/// that nobody wrote in this launch, or touches elements outside its boxes or buffers.
[[nodiscard]] std::unique_ptr<Executor> make_reference_executor(Plan plan,
                                                                const ReferenceOptions& options = {});

}  // namespace stretto
