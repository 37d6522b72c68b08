#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/machine.h"
#include "schedule/plan.h"

namespace stretto {

/// What the device gets: one translation unit that names the program's task kinds, and its records.
struct Emission {
    std::string source;  ///< CUDA C++; includes only <stretto/...>; does not grow with repeated layers
    std::vector<std::string> kinds;  ///< by kind number: name for messages
    std::vector<std::byte> records;  ///< abi::Record array, workers one after the other
    std::vector<std::byte> loads;    ///< abi::Load array, likewise
    std::vector<std::byte> workers;  ///< abi::WorkerRange array: where each worker's records and loads are
    std::int32_t threads = 0;        ///< of one CTA: the consumers, and a loader's warp where weights stream
    std::int64_t shared_bytes = 0;   ///< dynamic shared memory of one CTA
};

/// Requires: verify(plan) is empty, buffers placed.  Ensures: the same plan gives the same bytes.
/// Throws InternalError naming the region if a region or the ring exceeds what the device library can hold.
/// Why here: the last stage; it decides nothing, it only writes down.
[[nodiscard]] Emission emit(const Plan& plan, const Machine& machine);

}  // namespace stretto
