#pragma once

#include <string>
#include <vector>

#include "tile/task.h"

namespace stretto {

/// How one region's results reach another.
enum class HandOff : std::uint8_t { SameWorker, Counter, Barrier, Words };

struct Wait {
    EventId event;
    std::uint32_t target = 0;  ///< signals of this launch that must have arrived
    bool operator==(const Wait&) const = default;
};

/// A task on its worker. It starts when the worker's previous task is complete and all waits hold; it is
/// complete when its writes are visible to whoever observes its signals.
struct Step {
    TaskId task;
    std::vector<Wait> waits;       ///< at most kMaxWaits
    std::vector<EventId> signals;  ///< at most kMaxSignals, each incremented by one
    bool operator==(const Step&) const = default;
};

inline constexpr std::size_t kMaxWaits = 6;
inline constexpr std::size_t kMaxSignals = 4;

/// One piece of the weight stream: `rows` rows of `row_bytes` bytes of a buffer, the first at `offset` and the next ones
/// `row_stride` bytes apart, into the next ring slot. `task` consumes it. A task's loads come panel by panel, then piece
/// by piece of k, then weight by weight; or, where whole rows travel, by group of rows, then weight by weight.
struct Load {
    TaskId task;
    BufferId buffer;
    std::int64_t offset = 0;
    std::int64_t row_bytes = 0;
    std::int64_t rows = 1;
    std::int64_t row_stride = 0;  ///< 0 where there is a single row

    [[nodiscard]] std::int64_t bytes() const { return rows * row_bytes; }
    bool operator==(const Load&) const = default;
};

/// What one worker does: its tasks in order, and the loads that its loader issues ahead, in consumption
/// order.
struct Worker {
    std::vector<Step> queue;
    std::vector<Load> stream;
    bool operator==(const Worker&) const = default;
};

/// A monotonic counter: `signals` increments arrive in every launch.
struct Event {
    HandOff kind = HandOff::Counter;
    std::uint32_t signals = 0;
    std::string name;  ///< for messages, e.g. "layers.3.mlp.down_proj#41"
    bool operator==(const Event&) const = default;
};

/// The choice made for one dependency between regions, for reports.
struct Edge {
    RegionId from;
    RegionId to;
    HandOff kind = HandOff::Counter;
    bool operator==(const Edge&) const = default;
};

/// One worker: `warps` consumer warps, and shared memory of `slots` ring slots of `slot_bytes`, then `scratch_bytes`
/// for the kinds.
struct SharedLayout {
    std::int32_t warps = 8;
    std::int64_t slots = 0;
    std::int64_t slot_bytes = 0;
    std::int64_t scratch_bytes = 0;
    bool operator==(const SharedLayout&) const = default;
};

/// Everything that a device needs to know, as data. `schedule` leaves `offsets` empty; `memory` fills it.
struct Plan {
    TaskGraph graph;
    std::string machine;  ///< name of the machine that it was planned for
    std::vector<Worker> workers;
    std::vector<Event> events;
    std::vector<Edge> edges;
    SharedLayout shared;
    std::vector<std::int64_t>
        offsets;  ///< by buffer: arena offset in bytes, -1 for buffers bound from outside
    std::int64_t arena_bytes = 0;
    bool operator==(const Plan&) const = default;
};

}  // namespace stretto
