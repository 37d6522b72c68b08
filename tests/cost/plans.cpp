#include "cost/plans.h"

#include <stdexcept>

namespace stretto {
namespace {

constexpr std::int64_t kRow = 100;  ///< BF16 elements of one weight row

}  // namespace

Machine plain_machine() {
    Machine machine;
    machine.name = "plain";
    machine.arch = "cpu";
    machine.bandwidth = 100;
    machine.flops = 1;
    machine.counter_us = 3;
    machine.barrier_us = 7;
    return machine;
}

CostPlan::CostPlan(int workers, std::int64_t slots) {
    plan.machine = "plain";
    plan.workers.resize(static_cast<std::size_t>(workers));
    plan.shared.slots = slots;
    plan.shared.slot_bytes = 2 * kRow;
    plan.graph.regions.buffers.push_back({"weight", DType::BF16, {64, kRow}, BufferRole::Parameter, nullptr});
    plan.graph.regions.buffers.push_back({"out", DType::F32, {1 << 20}, BufferRole::Output, nullptr});
    plan.offsets = {-1, -1};
}

TaskId CostPlan::add(int worker, RegionBody body, Task task) {
    TaskGraph& graph = plan.graph;
    const auto number = static_cast<std::int64_t>(graph.tasks.size());
    task.region = RegionId(number);
    graph.regions.regions.push_back({"r" + std::to_string(number), std::move(body)});
    graph.tasks.push_back(std::move(task));
    graph.tasks_of.push_back({number, number + 1});
    plan.workers.at(static_cast<std::size_t>(worker)).queue.push_back({TaskId(number), {}, {}});
    return TaskId(number);
}

TaskId CostPlan::compute(int worker, std::int64_t operations) {
    MapRegion map;
    map.space = {operations};
    Store store;
    store.target = {1, DType::F32, identity_map(map.space), {}};
    store.expr.constant(1.0, DType::F32);
    map.stores.push_back(store);
    Task task;
    task.tile[0] = {0, operations};
    return add(worker, map, task);
}

TaskId CostPlan::product(int worker, std::int64_t rows) {
    MatMulRegion matmul;
    matmul.space = {1, 1, rows, kRow};
    matmul.streamed = true;
    matmul.weights.push_back({0, DType::BF16, identity_map({1, 1, rows, kRow}), {}});
    Task task;
    task.tile = {Range{0, 1}, Range{0, 1}, Range{0, rows}, Range{0, 0}};
    task.reads.push_back({BufferId(0), {{0, rows}, {0, kRow}}, false});
    const TaskId added = add(worker, matmul, task);
    for (std::int64_t row = 0; row < rows; ++row) {
        plan.workers[static_cast<std::size_t>(worker)].stream.push_back(
            {added, BufferId(0), row * kRow * 2, kRow * 2});
    }
    return added;
}

Step& CostPlan::step(TaskId task) {
    for (Worker& worker : plan.workers) {
        for (Step& candidate : worker.queue) {
            if (candidate.task == task) return candidate;
        }
    }
    throw std::logic_error("no such task");
}

void CostPlan::hand_off(TaskId from, TaskId to, HandOff kind) {
    const EventId event(static_cast<std::int64_t>(plan.events.size()));
    plan.events.push_back({kind, 1, "e" + std::to_string(event.value)});
    plan.edges.push_back({plan.graph[from].region, plan.graph[to].region, kind});
    step(from).signals.push_back(event);
    step(to).waits.push_back({event, 1});
}

}  // namespace stretto
