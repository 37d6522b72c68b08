#pragma once

#include <cstdint>
#include <memory>

#include "backends/cuda/compile.h"
#include "backends/executor.h"

namespace stretto {

/// How a launch reaches the device.
enum class Launches {
    One,                ///< one persistent kernel
    Kernels,            ///< one kernel for each phase, for comparison
    OverlappedKernels,  ///< likewise; each may start while the one before ends (programmatic dependent launch)
};

struct CudaOptions {
    Launches launches = Launches::One;
    KernelOptions kernel{};
    bool packed_weights = false;  ///< Parameters stream from packed copies, which take memory of their own.
    std::uint64_t timeout_ns = 5'000'000'000;  ///< of one wait on the device
};

/// Is there a CUDA device that programs can run on?
[[nodiscard]] bool cuda_available();

/// A program on the current CUDA context's device (the primary context of device 0 where none is current, which is
/// PyTorch's). Compiles it for that device. Launches do not wait for the device and can be captured in a CUDA graph,
/// once one launch has run before: the first one binds parameters and state. A launch that fails leaves the context
/// intact; `synchronize` reports it and makes the executor ready to run again.
/// Throws UserError if there is no device, or if the plan has more workers than fit on it at one time.
[[nodiscard]] std::unique_ptr<Executor> make_cuda_executor(const Plan& plan, const Emission& emission,
                                                           const CudaOptions& options = {});

}  // namespace stretto
