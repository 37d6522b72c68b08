#pragma once

#include <cstdint>

#include "base/machine.h"
#include "fuse/region.h"

namespace stretto {

// Programs whose time shows what a machine does. All of them are made of `length` regions of one task for each worker.

/// Whose result a task of a relay reads.
enum class Relay : std::uint8_t { OwnWorker, OtherWorker };

/// Each region reads what the one before wrote, `rounds` elements a thread. A task also reads what its own predecessor
/// read, up to `reach` regions back.
[[nodiscard]] RegionGraph relay(const Machine& machine, Relay from, std::int64_t length,
                                std::int64_t rounds = 1, std::int64_t reach = 1);

/// No region reads anything; each stores `rounds` elements a thread, of an expression of `operations` operations.
[[nodiscard]] RegionGraph separate_maps(const Machine& machine, std::int64_t length, std::int64_t rounds,
                                        std::int64_t operations);

/// Products of one row with square weights that are streamed, `panels` panels of them a worker. Chained, each takes the
/// result of the one before as its row; else each takes an input of its own.
[[nodiscard]] RegionGraph streamed_products(const Machine& machine, bool chained, std::int64_t length,
                                            std::int64_t panels);

/// One product [size, depth] x [size, depth] of 16-bit numbers on tensor cores.
[[nodiscard]] RegionGraph square_product(const Machine& machine, std::int64_t size, std::int64_t depth);

}  // namespace stretto
