#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "backends/executor.h"
#include "runtime/program.h"

namespace stretto {

enum class Backend {
    Reference,  ///< one task at a time: slow, checks everything
    Cpu,        ///< one thread a worker
    Cuda,       ///< one persistent kernel
};

/// "reference", "cpu" or "cuda". Throws UserError on another name.
[[nodiscard]] Backend parse_backend(std::string_view name);

/// Memory that a backend's kernels can reach.
class Memory {
public:
    virtual ~Memory() = default;
    [[nodiscard]] virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
    /// Memory of the host that kernels reach, too.
    [[nodiscard]] virtual std::shared_ptr<void> allocate_on_host(std::size_t bytes) = 0;
    virtual void copy_in(void* target, const std::byte* source, std::size_t bytes) = 0;
    virtual void copy_out(std::byte* target, const void* source, std::size_t bytes) = 0;
    /// Bytes that can be had now, where that is known.
    [[nodiscard]] virtual std::optional<std::int64_t> free_bytes() const = 0;
};

[[nodiscard]] std::unique_ptr<Memory> make_memory(Backend backend);

struct ExecutorOptions {
    bool traced = false;
    bool packed_weights = false;  ///< As CudaOptions has it; of no effect elsewhere.
};

/// Throws UserError where the backend is not available here, where the program was planned for another kind of machine,
/// or where its tensors and itself do not fit into the memory that is free.
[[nodiscard]] std::unique_ptr<Executor> make_executor(const Program& program, Backend backend,
                                                      const ExecutorOptions& options);

}  // namespace stretto
