#include "emit/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "abi/abi.h"
#include "base/error.h"
#include "emit/cuda_file.h"
#include "emit/functor.h"
#include "emit/records.h"

namespace stretto {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& items) {
    std::vector<std::byte> bytes(items.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), items.data(), bytes.size());
    return bytes;
}

struct Kinds {
    std::vector<CudaKind> kinds;
    std::vector<std::uint32_t> of_region;
};

/// One kind for all regions that differ in their buffers only, in order of first use.
Kinds distinct_kinds(const RegionGraph& graph, std::int64_t warps) {
    Kinds out;
    std::map<std::string, std::uint32_t> known;
    for (const Region& region : graph.regions) {
        CudaKind kind = kind_of(graph, region, warps);
        const auto number = static_cast<std::uint32_t>(out.kinds.size());
        const auto [found, is_new] = known.try_emplace(kind.task_template + print(kind.functor), number);
        out.of_region.push_back(found->second);
        if (!is_new) continue;
        kind.functor.name = fmt::format("{}_{}", type_name(region.name), number);
        out.kinds.push_back(std::move(kind));
    }
    return out;
}

std::int64_t shared_bytes(const Plan& plan, const Machine& machine) {
    const std::int64_t ring = plan.shared.slots * plan.shared.slot_bytes;
    const std::int64_t scratch = abi::round_up(plan.shared.scratch_bytes, 16);
    const std::int64_t total = abi::kControlBytes + ring + scratch;
    if (total > machine.shared_bytes) {
        throw InternalError(
            fmt::format("a worker needs {} bytes of shared memory ({} for the ring, {} scratch, {} control), "
                        "but {} has {}: tile "
                        "or schedule must plan smaller tiles or fewer ring slots",
                        total, ring, scratch, abi::kControlBytes, machine.name, machine.shared_bytes));
    }
    return total;
}

/// A worker may ask for so many times its share of the bandwidth, at the nominal clock. What it gets beyond that, others lack.
constexpr double kMostShares = 1.3;

/// Clock cycles from one load to the next, for each KiB.
std::int64_t load_gap(const Plan& plan, const Machine& machine) {
    const auto streaming = std::count_if(plan.workers.begin(), plan.workers.end(),
                                         [](const Worker& worker) { return !worker.stream.empty(); });
    const double share = machine.bandwidth / static_cast<double>(std::max<std::int64_t>(streaming, 1));
    return std::llround(machine.clock * 1024 / (kMostShares * share));
}

void check_ring(const Plan& plan) {
    const bool streams = std::any_of(plan.workers.begin(), plan.workers.end(),
                                     [](const Worker& w) { return !w.stream.empty(); });
    if ((streams && plan.shared.slots < 1) || plan.shared.slots > abi::kMaxSlots ||
        plan.shared.slot_bytes % 16 != 0) {
        throw InternalError(
            fmt::format("a ring of {} slots of {} bytes: the device has 1 to {} slots of a multiple of "
                        "16 bytes",
                        plan.shared.slots, plan.shared.slot_bytes, abi::kMaxSlots));
    }
}

}  // namespace

Emission emit(const Plan& plan, const Machine& machine) {
    check_ring(plan);
    Kinds kinds = distinct_kinds(plan.graph.regions, plan.shared.warps);
    const Records records = make_records(plan, kinds.of_region);
    Emission out;
    for (const CudaKind& kind : kinds.kinds) out.kinds.push_back(kind.functor.name);
    // A program without streams still has a ring type: one slot that nothing uses.
    out.source = print(CudaFile{std::move(kinds.kinds), plan.shared.warps,
                                std::max<std::int64_t>(plan.shared.slots, 1), plan.shared.slot_bytes,
                                load_gap(plan, machine)});
    out.records = bytes_of(records.records);
    out.loads = bytes_of(records.loads);
    out.workers = bytes_of(records.workers);
    out.threads = (plan.shared.warps + (plan.shared.slot_bytes > 0 ? 1 : 0)) * 32;
    out.shared_bytes = shared_bytes(plan, machine);
    return out;
}

}  // namespace stretto
