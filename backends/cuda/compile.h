#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emit/emit.h"

namespace stretto {

struct KernelOptions {
    bool allow_spills = false;  ///< A kernel whose registers spill to memory is an error otherwise.
    bool use_cache = true;
    bool separate = false;  ///< Phases run as kernels of their own.
    bool apart =
        false;  ///< Every kind is a function of its own. Kinds that spill together are built so anyway.
    bool traced = false;  ///< The kernel writes stamps to Launch::trace, which must be set then.
};

/// Machine code of a program for one architecture.
struct CompiledKernel {
    std::vector<std::byte> cubin;
    std::string log;               ///< the compiler's, with its resource report
    std::int32_t registers = 0;    ///< a thread
    std::int32_t spill_bytes = 0;  ///< stores and loads, a thread
    std::int32_t stack_bytes = 0;  ///< local memory, a thread
    bool from_cache = false;
    /// What the compiler says that it had to slow down, in words, and the kinds that it says so of.
    std::vector<std::string> warnings;
};

/// The compiler's remarks in its log that cost time: where products that should run side by side wait for one another
/// ("Potential Performance Loss"), each once.
[[nodiscard]] std::vector<std::string> losses_in(const std::string& log);

/// Kinds whose products go on beside other instructions: those for which the device's program.h, whose text is given, has a
/// kRunsAhead of their own.
[[nodiscard]] std::vector<std::string> kinds_that_run_ahead(std::string_view program_header);

/// Compiles an emitted program. `arch` as in a machine file, e.g. "sm_90a". Needs no GPU. Results are cached by
/// content (see cuda::KernelCache).
/// Kinds that spill registers where they share a function are compiled again as functions of their own.
/// Throws InternalError with the compiler's messages if the source does not compile or spills, UserError if no
/// compiler can be found.
[[nodiscard]] CompiledKernel compile_kernel(const Emission& emission, const std::string& arch,
                                            const KernelOptions& options = {});

}  // namespace stretto
