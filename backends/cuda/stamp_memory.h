#pragma once

#include "backends/cuda/device_memory.h"
#include "profile/stamps.h"

namespace stretto::cuda {

/// Where a traced kernel writes its stamps.
class StampMemory {
public:
    explicit StampMemory(const Plan& plan);

    /// Forgets the stamps of the launch before. Requires: that launch has ended.
    [[nodiscard]] abi::TraceTarget prepare() const;
    /// The times of the launch, which must have ended well.
    [[nodiscard]] Trace read() const;

private:
    Plan plan_;
    std::size_t load_count_ = 0;
    DeviceMemory tasks_;
    DeviceMemory loads_;
    DeviceMemory workers_;
};

}  // namespace stretto::cuda
