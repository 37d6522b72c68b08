#pragma once

#include <optional>
#include <string>
#include <vector>

#include "abi/abi.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/packed_panels.h"
#include "backends/executor.h"
#include "emit/emit.h"

namespace stretto::cuda {

/// Where the buffers of a program are on the device, and its records with those addresses.
class BoundProgram {
public:
    /// `separate`: the program's phases are kernels of their own. `packed_for`: streams panels from packed copies, which a
    /// kernel for that architecture makes; empty: from where they are.
    struct Options {
        bool separate = false;
        std::string packed_for;
    };
    /// Allocates the arena and uploads the constants. Throws UserError if the program has more Input and Output
    /// buffers than a launch can pass.
    BoundProgram(const Plan& plan, const Emission& emission, Options options);

    /// Fills the arena with zero, which is the tag of no iteration. Asynchronous.
    void clear_arena() const { arena_.clear(); }

    /// Writes the records with the addresses of `bindings`; synchronous. Throws UserError naming a missing or badly
    /// aligned buffer.
    void bind(const Bindings& bindings);

    /// Has `bind` been called? Then throws UserError naming a Parameter or State that is no longer where it was.
    [[nodiscard]] bool bound_to(const Bindings& bindings) const;

    /// Makes the packed copies, if there are any, of what is bound. Asynchronous, in the order of `stream`.
    void pack(Stream stream) const {
        if (packed_) packed_->make(stream);
    }

    /// The parameter of the launch's first kernel, with the Input and Output buffers of `bindings`; that of each
    /// further one differs in that `workers` is moved on by the number of workers.
    [[nodiscard]] abi::Launch launch(const Bindings& bindings) const;
    [[nodiscard]] std::size_t kernels() const { return kernels_; }  ///< of a launch

private:
    struct BufferInfo {
        std::string name;
        BufferRole role = BufferRole::Arena;
        DevicePointer own = 0;            ///< of Constant and Arena buffers
        std::optional<abi::U32> dynamic;  ///< index in Launch::dynamic
    };

    void place_constants(const Plan& plan);
    [[nodiscard]] DevicePointer address(std::size_t buffer, const Bindings& bindings) const;
    [[nodiscard]] abi::U64 operand(abi::U64 buffer, const Bindings& bindings) const;
    [[nodiscard]] abi::Load load(abi::Load load, const Bindings& bindings) const;

    std::string packed_for_;
    std::vector<BufferInfo> buffers_;
    std::size_t kernels_ = 1;
    std::vector<abi::Record> records_;  ///< in package form
    std::vector<abi::Load> loads_;
    DeviceMemory arena_;
    DeviceMemory constants_;
    DeviceMemory workers_;
    DeviceMemory bound_records_;
    DeviceMemory bound_loads_;
    std::optional<PackedPanels> packed_;
    Bindings bound_;  ///< those that `bind` saw
};

}  // namespace stretto::cuda
