#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/executor.h"
#include "base/machine.h"
#include "support/memory.h"

namespace stretto {

/// One way to run programs: a backend, its options, and the machine for which plans are made.
struct Backend {
    std::string name;
    Machine machine;
    /// Runs `launches` launches of the plan on the memory, each of so many iterations.
    std::function<void(const Plan&, BufferMemory&, int launches, const Iterations&)> repeat;

    void run(const Plan& plan, BufferMemory& memory, int launches) const {
        repeat(plan, memory, launches, Iterations{});
    }
};

/// Every backend that works on this computer: reference in all orders, cpu with several numbers of workers, and cuda
/// where there is a device.
[[nodiscard]] std::vector<Backend> available_backends();

/// One of each kind on which all that can travel as packed words does.
[[nodiscard]] std::vector<Backend> packed_backends();

/// The stages from regions to a finished plan.
[[nodiscard]] Plan planned(RegionGraph regions, const Machine& machine);

/// A machine of the cpu kind with this many workers.
[[nodiscard]] Machine cpu_machine(std::int32_t workers);

/// One on which words are the cheapest hand-off by far.
[[nodiscard]] Machine word_machine(std::int32_t workers);

/// The machine, with costs by which whatever can travel as packed words does.
[[nodiscard]] Machine packed(Machine machine);

}  // namespace stretto
