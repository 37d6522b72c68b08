#include "tune/launch_clock.h"

#include <algorithm>

#include "backends/cuda/limits.h"
#include "base/error.h"
#include "runtime/tensors.h"

namespace stretto {
namespace {

constexpr std::int64_t kPattern = 1 << 20;  ///< elements of random values, repeated through a buffer

void fill(Memory& memory, void* target, const Buffer& buffer, std::uint64_t seed) {
    const HostTensor pattern = random_tensor(buffer.dtype, {std::min(volume(buffer.shape), kPattern)}, seed);
    const auto bytes = static_cast<std::size_t>(buffer.size_bytes());
    for (std::size_t at = 0; at < bytes; at += pattern.size) {
        memory.copy_in(static_cast<std::byte*>(target) + at, pattern.bytes.get(),
                       std::min(pattern.size, bytes - at));
    }
}

}  // namespace

FilledProgram::FilledProgram(Compiled compiled, const Machine& machine, Backend backend)
    : memory_(make_memory(backend)) {
    program_.plan = std::move(compiled.plan);
    program_.emission = std::move(compiled.emission);
    program_.machine = machine;
    executor_ = make_executor(program_, backend, {});
    for (const Buffer& buffer : program_.plan.graph.regions.buffers) {
        if (buffer.role == BufferRole::Arena || buffer.role == BufferRole::Constant) {
            bindings_.push_back(nullptr);
            continue;
        }
        storage_.push_back(memory_->allocate(static_cast<std::size_t>(buffer.size_bytes())));
        bindings_.push_back(storage_.back().get());
        if (buffer.role != BufferRole::Output) fill(*memory_, bindings_.back(), buffer, bindings_.size());
    }
}

void FilledProgram::launch(std::uint32_t iterations) {
    executor_->run(bindings_, nullptr, {.count = iterations, .stop = {}, .progress = nullptr});
    executor_->synchronize();
}

Clock launch_clock(Backend backend, const TimingSettings& settings) {
    return [backend, settings](const Compiled& more, const Compiled& less, const Machine& machine) {
        FilledProgram longer(more, machine, backend);
        FilledProgram shorter(less, machine, backend);
        const Launch launch_longer = [&](std::uint32_t count) { longer.launch(count); };
        const Launch launch_shorter = [&](std::uint32_t count) { shorter.launch(count); };
        const std::uint32_t iterations = iterations_for(launch_longer, settings);
        shorter.launch(iterations);
        std::vector<double> differences;
        for (int round = 0; round < settings.rounds; ++round) {
            const double time = timed_us(launch_longer, iterations);
            differences.push_back((time - timed_us(launch_shorter, iterations)) / iterations);
        }
        return median(std::move(differences));
    };
}

Machine machine_here(Machine base, Backend backend) {
    if (backend != Backend::Cuda) {
        if (base.arch != "cpu") {
            throw UserError("machine '" + base.name + "' is a GPU: probe it with --backend cuda");
        }
        return base;
    }
    const cuda::Limits limits = cuda::limits_of(cuda::use_context());
    base.arch = limits.arch;
    base.workers = limits.processors;
    base.shared_bytes = limits.shared_bytes;
    return base;
}

}  // namespace stretto
