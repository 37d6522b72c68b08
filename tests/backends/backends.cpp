#include "backends/backends.h"

#include "backends/cpu/cpu_executor.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/executor.h"
#include "backends/reference/reference_executor.h"
#include "memory/memory.h"
#include "schedule/schedule.h"
#include "tile/tile.h"

namespace stretto {
namespace {

Backend on_reference(std::string name, const Machine& machine, Order order, std::uint64_t seed) {
    return {
        "reference_" + std::move(name), machine,
        [order, seed](const Plan& plan, BufferMemory& memory, int launches, const Iterations& iterations) {
            const auto executor = make_reference_executor(plan, {order, seed});
            for (int i = 0; i < launches; ++i) executor->run(memory.bindings(), nullptr, iterations);
        }};
}

Backend on_cpu(std::string name, const Machine& machine) {
    return {"cpu_" + std::move(name), machine,
            [](const Plan& plan, BufferMemory& memory, int launches, const Iterations& iterations) {
                const auto executor = make_cpu_executor(plan);
                for (int i = 0; i < launches; ++i) executor->run(memory.bindings(), nullptr, iterations);
            }};
}

Machine cuda_machine(std::int32_t workers, std::int32_t warps) {
    Machine machine = builtin_machine("h200");
    machine.workers = workers;
    machine.consumer_warps = warps;
    return machine;
}

Backend on_cuda(const std::string& name, const Machine& machine, const CudaOptions& options = {}) {
    return {"cuda_" + name, machine,
            [machine, options](const Plan& plan, BufferMemory& memory, int launches,
                               const Iterations& iterations) {
                const auto executor = make_cuda_executor(plan, emit(plan, machine), options);
                std::vector<cuda::DeviceMemory> device;
                Bindings bindings;
                for (void* host : memory.bindings()) {
                    const BufferId buffer(static_cast<std::int64_t>(device.size()));
                    device.emplace_back(host != nullptr ? std::span(memory.bytes(buffer))
                                                        : std::span<const std::byte>());
                    bindings.push_back(device.back().as<void>());
                }
                cuda::finish_copies();
                for (int i = 0; i < launches; ++i) executor->run(bindings, nullptr, iterations);
                executor->synchronize();
                for (std::size_t b = 0; b < device.size(); ++b) {
                    if (device[b].size() == 0) continue;
                    cuda::check(cuda::driver().copy_to_host(memory.addresses()[b], device[b].address(),
                                                            device[b].size()),
                                "cuMemcpyDtoH");
                }
            }};
}

}  // namespace

std::vector<Backend> available_backends() {
    std::vector<Backend> all{
        on_reference("by_task_1", cpu_machine(1), Order::TaskNumber, 0),
        on_reference("random_3", cpu_machine(3), Order::Random, 1),
        on_reference("random_8", cpu_machine(8), Order::Random, 2),
        on_reference("last_worker_5", cpu_machine(5), Order::LastWorker, 0),
        on_reference("starve_4", cpu_machine(4), Order::Starve, 2),
        on_reference("depth_first_6", cpu_machine(6), Order::DepthFirst, 3),
        on_cpu("1", cpu_machine(1)),
        on_cpu("2", cpu_machine(2)),
        on_cpu("7", cpu_machine(7)),
        on_reference("words_random_5", word_machine(5), Order::Random, 5),
        on_reference("words_starve_4", word_machine(4), Order::Starve, 1),
        on_cpu("words_4", word_machine(4)),
    };
    all.back().machine.consumer_warps = 11;  // which no power of two divides evenly among
    if (cuda_available()) {
        all.push_back(on_cuda("1", cuda_machine(1, 8)));
        all.push_back(on_cuda("9", cuda_machine(9, 11)));
        all.push_back(on_cuda("packed_weights_5", cuda_machine(5, 8), {.packed_weights = true}));
    }
    return all;
}

std::vector<Backend> packed_backends() {
    std::vector<Backend> all{on_reference("packed_5", packed(cpu_machine(5)), Order::Random, 7),
                             on_cpu("packed_4", packed(cpu_machine(4)))};
    if (cuda_available()) all.push_back(on_cuda("packed_9", packed(cuda_machine(9, 8))));
    return all;
}

Plan planned(RegionGraph regions, const Machine& machine) {
    return place_buffers(schedule(tile(std::move(regions), machine), machine));
}

Machine cpu_machine(std::int32_t workers) {
    Machine machine = builtin_machine("cpu");
    machine.workers = workers;
    return machine;
}

Machine word_machine(std::int32_t workers) {
    Machine machine = cpu_machine(workers);
    machine.word_us = 0.001;
    machine.word_byte_us = 0;
    machine.load_latency_us = 0;
    return machine;
}

Machine packed(Machine machine) {
    machine.word_us = 0.001;
    machine.word_byte_us = 1;
    machine.counter_us = 1e9;
    machine.barrier_us = 2e9;
    return machine;
}

}  // namespace stretto
