#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "abi/abi.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/loaded_kernel.h"

namespace stretto::cuda {

/// Copies of the panels that a program streams, each as it lies in its slot: there one copy brings it, where PyTorch's
/// storage takes one for each row.
class PackedPanels {
public:
    /// Gives each of `panels` its image, which `make` fills, and makes it a load of that: of one row. There is one panel at
    /// least, and all have absolute addresses. `arch` as for compile_kernel.
    PackedPanels(const std::vector<abi::Load*>& panels, const std::string& arch);

    /// Copies all panels as they are now. Asynchronous, in the order of `stream`.
    void make(Stream stream) const;

private:
    DeviceMemory images_;
    DeviceMemory panels_;     ///< abi::Load array: where they come from
    DeviceMemory addresses_;  ///< of their images, in the same order
    std::size_t count_;
    LoadedKernel kernel_;
};

}  // namespace stretto::cuda
