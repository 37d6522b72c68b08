#include "runtime/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_executor.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/executor.h"
#include "backends/reference/reference_executor.h"
#include "base/error.h"
#include "runtime/memory_need.h"

namespace stretto {
namespace {

constexpr std::array<std::pair<std::string_view, Backend>, 3> kBackends{
    {{"reference", Backend::Reference}, {"cpu", Backend::Cpu}, {"cuda", Backend::Cuda}}};

/// As for device memory, so that loads of whole vectors never cross a line.
constexpr std::align_val_t kAlignment{256};

class HostMemory : public Memory {
public:
    std::shared_ptr<void> allocate(std::size_t bytes) override {
        void* memory = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment);
        return {memory, [](void* each) { ::operator delete(each, kAlignment); }};
    }
    std::shared_ptr<void> allocate_on_host(std::size_t bytes) override { return allocate(bytes); }
    void copy_in(void* target, const std::byte* source, std::size_t bytes) override {
        std::memcpy(target, source, bytes);
    }
    void copy_out(std::byte* target, const void* source, std::size_t bytes) override {
        std::memcpy(target, source, bytes);
    }
    [[nodiscard]] std::optional<std::int64_t> free_bytes() const override { return free_host_memory(); }
};

class CudaMemory : public Memory {
public:
    std::shared_ptr<void> allocate(std::size_t bytes) override {
        const auto memory = std::make_shared<cuda::DeviceMemory>(bytes);
        return {memory, memory->as<void>()};
    }
    std::shared_ptr<void> allocate_on_host(std::size_t bytes) override {
        return cuda::allocate_on_host(bytes);
    }
    void copy_in(void* target, const std::byte* source, std::size_t bytes) override {
        cuda::check(cuda::driver().copy_to_device(address(target), source, bytes), "cuMemcpyHtoD");
    }
    void copy_out(std::byte* target, const void* source, std::size_t bytes) override {
        cuda::check(cuda::driver().copy_to_host(target, address(source), bytes), "cuMemcpyDtoH");
    }
    [[nodiscard]] std::optional<std::int64_t> free_bytes() const override {
        return static_cast<std::int64_t>(cuda::free_memory());
    }

private:
    static cuda::DevicePointer address(const void* pointer) {
        return reinterpret_cast<cuda::DevicePointer>(pointer);
    }
};

}  // namespace

Backend parse_backend(std::string_view name) {
    std::vector<std::string_view> known;
    for (const auto& [each, backend] : kBackends) {
        if (each == name) return backend;
        known.push_back(each);
    }
    throw UserError(fmt::format("unknown backend '{}'; known: {}", name, fmt::join(known, ", ")));
}

std::unique_ptr<Memory> make_memory(Backend backend) {
    if (backend == Backend::Cuda) return std::make_unique<CudaMemory>();
    return std::make_unique<HostMemory>();
}

std::unique_ptr<Executor> make_executor(const Program& program, Backend backend,
                                        const ExecutorOptions& options) {
    const Machine& machine = program.machine;
    if (backend == Backend::Cuda && machine.arch == "cpu") {
        throw UserError(
            fmt::format("this program was planned for '{}'; compile it with --machine h200 to run it on a "
                        "GPU",
                        machine.name));
    }
    const bool packs = options.packed_weights && backend == Backend::Cuda;
    if (const auto bytes = make_memory(backend)->free_bytes()) {
        check_fits(program, {.bytes = *bytes, .packs_weights = packs});
    }
    switch (backend) {
        case Backend::Reference:
            return make_reference_executor(program.plan, {.consumer_warps = machine.consumer_warps});
        case Backend::Cpu:
            return make_cpu_executor(program.plan,
                                     {.consumer_warps = machine.consumer_warps, .traced = options.traced});
        case Backend::Cuda:
            return make_cuda_executor(program.plan, program.emission,
                                      {.kernel = {.traced = options.traced}, .packed_weights = packs});
    }
    throw InternalError("make_executor: unknown backend");
}

}  // namespace stretto
