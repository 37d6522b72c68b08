#include "profile/traces.h"

#include <algorithm>
#include <random>

namespace stretto::sample {
namespace {

constexpr std::int64_t kRows = 8;  ///< of a task's tile
constexpr std::int64_t kRow = 64;  ///< elements of a weight row

MapRegion map_region(std::int64_t positions) {
    MapRegion map;
    map.space = {positions};
    Store store;
    store.target = {0, DType::F32, identity_map(map.space), {}};
    store.expr.constant(1.0, DType::F32);
    map.stores.push_back(store);
    return map;
}

MatMulRegion product_region(std::int64_t columns) {
    MatMulRegion product;
    product.space = {1, 1, columns, kRow};
    product.streamed = true;
    product.weights.push_back({1, DType::BF16, identity_map({1, 1, columns, kRow}), {}});
    return product;
}

}  // namespace

Trace random_trace(const Plan& plan, unsigned seed) {
    std::mt19937_64 random(seed);
    const auto some = [&] { return std::uniform_real_distribution(0.1, 2.0)(random); };
    Trace trace;
    trace.backend = "cuda";
    trace.tick = 0.032;
    trace.tasks.resize(plan.graph.tasks.size());
    std::vector<double> free_at(plan.workers.size(), 0);
    std::vector<std::size_t> worker_of(plan.graph.tasks.size());
    for (std::size_t w = 0; w < plan.workers.size(); ++w) {
        for (const Step& step : plan.workers[w].queue) worker_of[step.task.index()] = w;
    }
    for (std::size_t t = 0; t < trace.tasks.size(); ++t) {
        TaskTimes& task = trace.tasks[t];
        double inputs = 0;
        for (const Range& range : plan.graph.tasks[t].after) {
            for (std::int64_t other = range.begin; other < range.end; ++other) {
                inputs = std::max(inputs, trace.tasks[static_cast<std::size_t>(other)].published);
            }
        }
        task.begun = free_at[worker_of[t]];
        task.ready = std::max(task.begun, inputs) + some();
        task.staged = t % 2 == 0 ? task.ready + some() : task.ready;
        task.computed = task.staged + some();
        task.published = task.computed + some();
        task.stalled = (task.computed - task.staged) / 3;
        free_at[worker_of[t]] = task.computed;
        trace.total = std::max(trace.total, task.published);
    }
    for (const Worker& worker : plan.workers) {
        trace.loads.emplace_back();
        double at = 0;
        for (std::size_t i = 0; i < worker.stream.size(); ++i)
            trace.loads.back().push_back(at += some() - 0.1);
    }
    return trace;
}

Plan layered_plan(int layers, int width) {
    Plan plan;
    plan.machine = "h200";
    plan.shared = {8, 4, kRows * kRow * 2, 0};
    plan.workers.resize(static_cast<std::size_t>(width));
    RegionGraph& regions = plan.graph.regions;
    regions.buffers.push_back({"x", DType::F32, {width * kRows}, BufferRole::Output, nullptr});
    regions.buffers.push_back({"w", DType::BF16, {width * kRows, kRow}, BufferRole::Parameter, nullptr});
    plan.offsets = {-1, -1};
    for (int r = 0; r < 2 * layers; ++r) {
        const bool streams = r % 2 == 0;
        const std::string name = "model.layers." + std::to_string(r / 2) + (streams ? ".up#" : ".act#");
        RegionBody body = map_region(width * kRows);
        if (streams) body = product_region(width * kRows);
        regions.regions.push_back({name + std::to_string(r), body});
        plan.graph.tasks_of.push_back({r * width, (r + 1) * width});
        for (int i = 0; i < width; ++i) {
            const TaskId id(r * width + i);
            Task task;
            task.region = RegionId(r);
            const Range rows{i * kRows, (i + 1) * kRows};
            task.tile = streams ? std::array{Range{0, 1}, Range{0, 1}, rows, Range{}}
                                : std::array{rows, Range{}, Range{}, Range{}};
            if (r > 0) task.after.push_back({(r - 1) * width, r * width});
            plan.graph.tasks.push_back(task);
            Worker& worker = plan.workers[static_cast<std::size_t>(i)];
            Step step{id, {}, {}};
            if (r > 0) step.waits.push_back({EventId(r - 1), static_cast<std::uint32_t>(width)});
            if (r + 1 < 2 * layers) step.signals.push_back(EventId(r));
            worker.queue.push_back(step);
            if (streams) worker.stream.push_back({id, BufferId(1), i * kRows * kRow * 2, kRows * kRow * 2});
        }
        if (r + 1 < 2 * layers) {
            plan.events.push_back(
                {HandOff::Counter, static_cast<std::uint32_t>(width), "e" + std::to_string(r)});
        }
    }
    return plan;
}

}  // namespace stretto::sample
