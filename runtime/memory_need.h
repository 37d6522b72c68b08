#pragma once

#include <cstdint>
#include <optional>

#include "runtime/program.h"

namespace stretto {

/// Bytes that a program needs on its device, by what they hold.
struct MemoryNeed {
    std::int64_t parameters = 0;
    std::int64_t state = 0;
    std::int64_t arguments = 0;      ///< inputs and outputs
    std::int64_t intermediates = 0;  ///< the arena
    std::int64_t lasting = 0;        ///< at most so much of the arena does not grow with the inputs
    std::int64_t code = 0;           ///< constants, and what each worker does
    std::int64_t packed =
        0;  ///< packed copies of weights; not part of `total`, since a program can do without

    [[nodiscard]] std::int64_t total() const { return parameters + state + arguments + intermediates + code; }
};

[[nodiscard]] MemoryNeed memory_need(const Program& program);

/// Memory that a program may take.
struct Room {
    std::int64_t bytes = 0;
    bool holds_tensors =
        false;  ///< parameters, state, inputs and outputs are there already, and not part of `bytes`
    std::int64_t batch = 0;    ///< rows of a batch, where they are known
    bool takes_parts = false;  ///< batches may come in parts (microbatches)
    bool packs_weights = false;
};

/// Throws UserError where the program does not fit: what it needs, what is free, and about which batch would fit.
void check_fits(const Program& program, const Room& room);

/// Memory of this computer that can be had without swapping, where the operating system says so.
[[nodiscard]] std::optional<std::int64_t> free_host_memory();

}  // namespace stretto
