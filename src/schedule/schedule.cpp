#include "schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "abi/abi.h"
#include "base/error.h"
#include "fuse/product_kind.h"
#include "schedule/handoffs.h"
#include "schedule/loads.h"
#include "schedule/placement.h"
#include "schedule/urgency.h"

namespace stretto {
namespace {

/// Bulk copies write multiples of 16 bytes; a slot starts on a line of its own.
constexpr std::int64_t kSlotAlignment = 128;

/// Shared memory of a worker: what the tasks need, and as many ring slots beside it as fit, each for the largest load.
SharedLayout share_memory(const Plan& plan, const Machine& machine) {
    SharedLayout layout;
    layout.warps = machine.consumer_warps;
    std::int64_t weights = 0;
    for (const Task& task : plan.graph.tasks) {
        const Region& region = plan.graph.regions[task.region];
        layout.scratch_bytes =
            std::max(layout.scratch_bytes, scratch_bytes(region, task.tile, machine.consumer_warps));
        if (const MatMulRegion* matmul = streamed_product(region.body)) {
            weights = std::max(weights, static_cast<std::int64_t>(matmul->weights.size()));
        }
    }
    for (const Worker& worker : plan.workers) {
        for (const Load& load : worker.stream) {
            const std::int64_t bytes = abi::round_up(slot_bytes(load), kSlotAlignment);
            layout.slot_bytes = std::max(layout.slot_bytes, bytes);
        }
    }
    const std::int64_t left = machine.shared_bytes - abi::kControlBytes - layout.scratch_bytes;
    if (layout.slot_bytes > 0)
        layout.slots = std::min<std::int64_t>(left / layout.slot_bytes, abi::kMaxSlots);
    if (left < 0 || layout.slots < weights) {
        throw UserError(
            fmt::format("machine '{}' has {} bytes of shared memory a worker; this program needs {} for its "
                        "tasks and {} for the ring: plan for a machine with more",
                        machine.name, machine.shared_bytes, layout.scratch_bytes + abi::kControlBytes,
                        weights * layout.slot_bytes));
    }
    return layout;
}

}  // namespace

Plan schedule(TaskGraph tasks, const Machine& machine, const PlanOptions& options) {
    Plan plan;
    plan.machine = machine.name;
    plan.graph = by_urgency(std::move(tasks), machine);
    plan.workers.resize(static_cast<std::size_t>(machine.workers));
    const std::vector<std::vector<TaskId>> queues = place_tasks(plan.graph, machine);
    for (std::size_t w = 0; w < queues.size(); ++w) {
        for (TaskId task : queues[w]) {
            plan.workers[w].queue.push_back({task, {}, {}});
            append_loads(plan.graph, task, machine.consumer_warps, plan.workers[w].stream);
        }
    }
    plan.shared = share_memory(plan, machine);
    choose_hand_offs(plan, machine, options);
    return plan;
}

}  // namespace stretto
