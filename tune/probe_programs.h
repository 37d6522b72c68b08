#pragma once

#include <cstdint>

#include "base/machine.h"
#include "fuse/region.h"

namespace stretto {

// Programs whose time shows what a machine does. All of them are made of `length` regions of one task for each worker.

/// Whose result a task of a relay reads.
enum class Relay : std::uint8_t { OwnWorker, OtherWorker };

/// Each region reads what the `reach` regions before wrote, one element a thread of each.
[[nodiscard]] RegionGraph relay(const Machine& machine, Relay from, std::int64_t length,
                                std::int64_t reach = 1);

/// Each task reads what the tasks of the next `rows` workers wrote, so that up to so many readers share a writer's counters.
[[nodiscard]] RegionGraph overlapping_relay(const Machine& machine, std::int64_t length, std::int64_t rows);

/// No region reads anything; each stores `rounds` elements a thread: an expression of `operations` operations, or a constant.
[[nodiscard]] RegionGraph separate_maps(const Machine& machine, std::int64_t length, std::int64_t rounds,
                                        std::int64_t operations);

/// What the products of a program take as their row.
enum class Rows : std::uint8_t {
    Chained,
    Separate
};  ///< the result of the one before, or an input of its own

/// Products of one row with square weights that are streamed, `panels` panels of them a worker.
[[nodiscard]] RegionGraph streamed_products(const Machine& machine, Rows rows, std::int64_t length,
                                            std::int64_t panels);

/// The same with weights that are one row, read again for every column: the wide rows of activations are all that moves.
[[nodiscard]] RegionGraph wide_products(const Machine& machine, Rows rows, std::int64_t length,
                                        std::int64_t panels);

/// One product [size, depth] x [size, depth] of 16-bit numbers on tensor cores.
[[nodiscard]] RegionGraph square_product(const Machine& machine, std::int64_t size, std::int64_t depth);

}  // namespace stretto
