#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/driver.h"

namespace stretto::cuda {

/// What a device says about itself.
struct Limits {
    std::string arch;               ///< as in a machine file, e.g. "sm_90a"
    std::int32_t processors = 0;    ///< multiprocessors
    std::int64_t shared_bytes = 0;  ///< shared memory that one block may use
};

[[nodiscard]] Limits limits_of(Device device);

}  // namespace stretto::cuda
