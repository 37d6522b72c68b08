#include "backends/cuda/limits.h"

#include <fmt/format.h>

namespace stretto::cuda {

Limits limits_of(Device device) {
    const int major = attribute(DeviceAttribute::ComputeCapabilityMajor, device);
    const int minor = attribute(DeviceAttribute::ComputeCapabilityMinor, device);
    return {fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : ""),
            attribute(DeviceAttribute::MultiprocessorCount, device),
            attribute(DeviceAttribute::MaxSharedMemoryPerBlockOptin, device)};
}

}  // namespace stretto::cuda
