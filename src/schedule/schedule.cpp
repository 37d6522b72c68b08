#include "schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "abi/abi.h"
#include "base/error.h"
#include "schedule/handoffs.h"
#include "schedule/placement.h"

namespace stretto {
namespace {

/// The loads of one task: rows in groups that fit a slot, and for each group one load per weight.
void add_loads(const TaskGraph& graph, TaskId id, std::int64_t slot_bytes, std::vector<Load>& stream) {
    const Task& task = graph[id];
    const auto* matmul = std::get_if<MatMulRegion>(&graph.regions[task.region].body);
    if (matmul == nullptr || !matmul->streamed) return;
    const std::int64_t group = rows_per_slot(*matmul, slot_bytes);
    for (std::int64_t row = task.tile[2].begin; row < task.tile[2].end; row += group) {
        const std::int64_t rows = std::min(group, task.tile[2].end - row);
        for (const Access& weight : matmul->weights) {
            const auto size = static_cast<std::int64_t>(size_of(weight.type));
            const std::int64_t row_bytes = matmul->space[3] * size;
            stream.push_back(
                {id, BufferId(weight.source), weight.map.offset * size + row * row_bytes, rows * row_bytes});
        }
    }
}

SharedLayout share_memory(const TaskGraph& graph, const Machine& machine) {
    SharedLayout layout;
    layout.warps = machine.consumer_warps;
    std::int64_t weights = 0;
    for (const Task& task : graph.tasks) {
        const Region& region = graph.regions[task.region];
        layout.scratch_bytes =
            std::max(layout.scratch_bytes, scratch_bytes(region, task.tile, machine.consumer_warps));
        const auto* matmul = std::get_if<MatMulRegion>(&region.body);
        if (matmul != nullptr && matmul->streamed) {
            weights = std::max(weights, static_cast<std::int64_t>(matmul->weights.size()));
        }
    }
    const std::int64_t left = machine.shared_bytes - abi::kControlBytes - layout.scratch_bytes;
    if (weights > 0) {
        layout.slot_bytes = machine.ring_slot_bytes;
        layout.slots = std::min<std::int64_t>(left / layout.slot_bytes, abi::kMaxSlots);
    }
    if (left < 0 || layout.slots < weights) {
        throw UserError(
            fmt::format("machine '{}' has {} bytes of shared memory a worker; this program needs {} for its "
                        "tasks and {} for the ring: plan for a machine with more",
                        machine.name, machine.shared_bytes, layout.scratch_bytes + abi::kControlBytes,
                        weights * machine.ring_slot_bytes));
    }
    return layout;
}

}  // namespace

Plan schedule(TaskGraph tasks, const Machine& machine) {
    Plan plan;
    plan.machine = machine.name;
    plan.graph = std::move(tasks);
    plan.shared = share_memory(plan.graph, machine);
    plan.workers.resize(static_cast<std::size_t>(machine.workers));
    const std::vector<std::int32_t> placed = place_tasks(plan.graph, machine);
    for (std::size_t t = 0; t < placed.size(); ++t) {
        Worker& worker = plan.workers[static_cast<std::size_t>(placed[t])];
        const TaskId id(static_cast<std::int64_t>(t));
        worker.queue.push_back({id, {}, {}});
        add_loads(plan.graph, id, plan.shared.slot_bytes, worker.stream);
    }
    choose_hand_offs(plan, machine);
    return plan;
}

}  // namespace stretto
