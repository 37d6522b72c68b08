#pragma once

#include "schedule/plan.h"
#include "support/generators.h"

namespace stretto::generators {

inline std::vector<Store> pick_stores(std::int64_t buffers) {
    std::vector<Store> stores(static_cast<std::size_t>(pick(0, 2)));
    for (Store& store : stores) {
        store.target = pick_access(buffers);
        store.expr = pick_expr(buffers);
        store.indices = pick_indices(store.target, store.expr);
    }
    return stores;
}

inline MatMulRegion pick_matmul(std::int64_t buffers) {
    MatMulRegion region;
    region.space = pick_space<4>();
    if (one_in(2)) region.stats.push_back({pick_expr(buffers), pick_expr(buffers)});
    region.a = pick_expr(buffers);
    region.a_type = pick_dtype();
    region.weights.resize(static_cast<std::size_t>(pick(1, 2)));
    for (Access& weight : region.weights) weight = pick_access(buffers);
    region.streamed = one_in(2);
    region.ragged = pick_ragged(buffers);
    region.stores = pick_stores(buffers);
    return region;
}

inline AttentionRegion pick_attention(std::int64_t buffers) {
    AttentionRegion region;
    region.space = pick_space<5>();
    region.group = pick(1, 8);
    region.splits = pick(1, 16);
    region.scale = pick_number();
    region.query = pick_expr(buffers);
    region.key = pick_access(buffers);
    region.value = pick_access(buffers);
    region.fresh = pick_fresh_row(buffers);
    if (one_in(2)) region.mask = pick_expr(buffers);
    if (one_in(2)) region.length = pick_expr(buffers);
    region.out = pick_access(buffers);
    return region;
}

inline ScoredRegion pick_scored(std::int64_t buffers) {
    ScoredRegion region;
    region.space = pick_space<5>();
    region.scores.resize(static_cast<std::size_t>(pick(1, 2)));
    for (Score& score : region.scores) score = {pick_access(buffers), pick_access(buffers)};
    region.sums.resize(static_cast<std::size_t>(pick(1, 2)));
    for (ScoredSum& sum : region.sums) {
        sum.weight = pick_expr(buffers);
        if (one_in(2)) sum.factor = pick_access(buffers);
    }
    region.softmax = one_in(3);
    if (!region.softmax) region.op = pick_enum(ReduceOp::Min);
    region.band = {pick(-1000, 0), pick(0, 1000)};
    region.tile = {static_cast<std::int32_t>(pick(1, 128)), static_cast<std::int32_t>(pick(1, 128)),
                   static_cast<std::int32_t>(pick(1, 4))};
    region.stores = pick_stores(buffers);
    if (one_in(2)) region.row_stores = pick_stores(buffers);
    return region;
}

inline RegionBody pick_body(std::int64_t buffers) {
    switch (pick(0, 4)) {
        case 0:
            return MapRegion{pick_shape(), pick_stores(buffers)};
        case 1: {
            const Shape space = pick_shape();
            const auto kept = static_cast<std::int32_t>(pick(0, static_cast<std::int64_t>(space.size())));
            std::vector<Reduction> reductions(static_cast<std::size_t>(pick(1, 3)));
            for (Reduction& reduction : reductions)
                reduction = {pick_enum(ReduceOp::Min), pick_expr(buffers)};
            return ReduceRegion{
                space, kept, reductions, pick_ragged(buffers), pick_stores(buffers), pick_stores(buffers)};
        }
        case 2:
            return pick_matmul(buffers);
        case 3:
            return pick_scored(buffers);
        default:
            return pick_attention(buffers);
    }
}

inline RegionGraph pick_regions() {
    RegionGraph graph;
    graph.buffers.resize(static_cast<std::size_t>(pick(1, 5)));
    for (Buffer& buffer : graph.buffers) {
        buffer = {pick_name(), pick_dtype(), pick_shape(), pick_enum(BufferRole::Arena), nullptr};
        if (buffer.role == BufferRole::Constant) buffer.bytes = pick_bytes();
        buffer.tagged = one_in(3);
        buffer.packed = buffer.tagged && one_in(2);
    }
    graph.regions.resize(static_cast<std::size_t>(pick(0, 3)));
    for (Region& region : graph.regions) {
        region = {pick_name(), pick_body(static_cast<std::int64_t>(graph.buffers.size()))};
    }
    return graph;
}

inline Range pick_range() {
    const std::int64_t begin = pick(0, 1000);
    return {begin, pick(begin, 2000)};
}

inline std::vector<Footprint> pick_footprints(std::int64_t buffers) {
    std::vector<Footprint> footprints(static_cast<std::size_t>(pick(0, 3)));
    for (Footprint& footprint : footprints) {
        footprint.buffer = BufferId(pick(0, buffers - 1));
        footprint.box.resize(static_cast<std::size_t>(pick(0, 3)));
        for (Range& range : footprint.box) range = pick_range();
        footprint.may = one_in(4);
    }
    return footprints;
}

inline TaskGraph pick_tasks() {
    TaskGraph graph;
    graph.regions = pick_regions();
    const auto buffers = static_cast<std::int64_t>(graph.regions.buffers.size());
    for (std::size_t region = 0; region < graph.regions.regions.size(); ++region) {
        const auto first = static_cast<std::int64_t>(graph.tasks.size());
        const std::int64_t count = pick(0, 4);
        for (std::int64_t i = 0; i < count; ++i) {
            Task& task = graph.tasks.emplace_back();
            task.region = RegionId(static_cast<std::int64_t>(region));
            for (Range& range : task.tile) range = pick_range();
            task.reads = pick_footprints(buffers);
            task.writes = pick_footprints(buffers);
            task.after.resize(static_cast<std::size_t>(first == 0 ? 0 : pick(0, 2)), {0, first});
        }
        graph.tasks_of.push_back({first, first + count});
    }
    return graph;
}

inline Worker pick_worker(std::int64_t tasks, std::int64_t buffers, std::int64_t events) {
    Worker worker;
    for (std::int64_t task = 0; task < tasks; ++task) {
        Step& step = worker.queue.emplace_back();
        step.task = TaskId(task);
        step.waits.resize(static_cast<std::size_t>(events == 0 ? 0 : pick(0, 2)));
        for (Wait& wait : step.waits)
            wait = {EventId(pick(0, events - 1)), *rc::gen::arbitrary<std::uint32_t>()};
        step.signals.resize(static_cast<std::size_t>(events == 0 ? 0 : pick(0, 2)), EventId(0));
        Load load{TaskId(task), BufferId(pick(0, buffers - 1)), pick(0, 100'000), pick(1, 30'000)};
        if (one_in(2)) {
            load.rows = pick(0, 8);
            load.row_stride = pick(0, 4'000);
        }
        const std::int64_t run = one_in(8) ? pick(250, 520) : pick(0, 5);
        const std::int64_t distance = pick(0, 1) * load.bytes();
        for (std::int64_t i = 0; i < run; ++i, load.offset += distance) worker.stream.push_back(load);
    }
    return worker;
}

inline Plan pick_plan() {
    Plan plan;
    plan.graph = pick_tasks();
    plan.machine = pick_name();
    const auto buffers = static_cast<std::int64_t>(plan.graph.regions.buffers.size());
    const auto tasks = static_cast<std::int64_t>(plan.graph.tasks.size());
    plan.events.resize(static_cast<std::size_t>(pick(0, 3)));
    for (Event& event : plan.events) {
        event = {pick_enum(HandOff::Words), *rc::gen::arbitrary<std::uint32_t>(), pick_name()};
    }
    plan.workers.resize(static_cast<std::size_t>(pick(0, 3)));
    for (Worker& worker : plan.workers) {
        worker = pick_worker(tasks, buffers, static_cast<std::int64_t>(plan.events.size()));
    }
    plan.edges.resize(static_cast<std::size_t>(pick(0, 2)), {RegionId(0), RegionId(1), HandOff::Words});
    plan.shared = {static_cast<std::int32_t>(pick(1, 8)), pick(0, 8), pick(0, 30'000), pick(0, 30'000)};
    if (one_in(2)) {
        plan.offsets.resize(static_cast<std::size_t>(buffers));
        for (auto& offset : plan.offsets) offset = one_in(2) ? -1 : pick(0, 100'000);
        plan.arena_bytes = pick(0, 200'000);
    }
    return plan;
}

}  // namespace stretto::generators
