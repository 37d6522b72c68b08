#pragma once

#include <array>
#include <vector>

#include "fuse/region.h"

namespace stretto {

/// Part of a buffer that a task touches. Reads may be over-approximated. Writes are exact unless `may`: a
/// data-dependent store writes some bytes of the box and leaves the others as they were.
struct Footprint {
    BufferId buffer;
    Box box;
    bool may = false;
    bool operator==(const Footprint&) const = default;
};

/// One tile of one region. Meaning of `tile` by region kind, unused ranges are [0, 0):
///   Map        [0] row-major positions of the space
///   Reduce     [0] row-major positions of the kept dimensions
///   MatMul     [0] b  [1] m  [2] n
///   Attention  [0] b  [1] key head  [2] q  [3] split (all but q of extent 1)
///   Scored     [0] b  [1] r
struct Task {
    RegionId region;
    std::array<Range, 4> tile{};
    std::vector<Footprint> reads;
    std::vector<Footprint> writes;
    /// Tasks (as ranges of task numbers) whose effects must come before this task: read after write, write
    /// after read, write after write.
    std::vector<Range> after;
    bool operator==(const Task&) const = default;
};

/// Tasks in region order: those of one region are neighbours, and `after` names smaller numbers only.
struct TaskGraph {
    RegionGraph regions;
    std::vector<Task> tasks;
    std::vector<Range> tasks_of;  ///< by region: its task numbers

    [[nodiscard]] const Task& operator[](TaskId id) const { return tasks.at(id.index()); }
    bool operator==(const TaskGraph&) const = default;
};

/// Bytes of shared memory that a task of the region needs beside the ring, on a worker of `warps` consumer warps; the
/// layout is the device kind's (abi/abi.h).
[[nodiscard]] std::int64_t scratch_bytes(const Region& region, const std::array<Range, 4>& tile,
                                         std::int32_t warps);

}  // namespace stretto
