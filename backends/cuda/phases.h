#pragma once

#include <cstddef>
#include <vector>

#include "abi/abi.h"
#include "emit/emit.h"
#include "schedule/plan.h"

namespace stretto::cuda {

/// The tasks of a plan as kernels that run one after the other, in package form. It is what a CUDA graph of separate
/// kernels would run, and shows what the one kernel gains: same tasks, same code, no hand-offs inside a kernel.
struct Phases {
    std::vector<abi::Record> records;       ///< by phase, then by worker; without waits and signals
    std::vector<abi::Load> loads;           ///< likewise
    std::vector<abi::WorkerRange> workers;  ///< all workers of the first phase, then those of the second, …
    std::size_t count = 0;
};

/// A phase holds the regions whose longest chain of regions that they must follow has the same length: those they depend
/// on, and those whose arena bytes they write again.
[[nodiscard]] Phases phases(const Plan& plan, const Emission& emission);

}  // namespace stretto::cuda
