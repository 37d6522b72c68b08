#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "backends/cuda/phases.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

Plan planned() {
    Plan plan = sample::every_kind(builtin_machine("h200"), 4);
    // A chain: each region comes after the one before it.
    for (Task& task : plan.graph.tasks) {
        if (task.region.index() > 0) task.after = {plan.graph.tasks_of[task.region.index() - 1]};
    }
    return plan;
}

TEST(Phases, RunEveryTaskOnceWithItsLoadsAfterWhatItDependsOn) {
    const Plan plan = planned();
    const cuda::Phases split = cuda::phases(plan, emit(plan, builtin_machine("h200")));
    ASSERT_EQ(split.count, plan.graph.regions.regions.size());
    ASSERT_EQ(split.workers.size(), split.count * plan.workers.size());
    std::map<abi::U32, std::size_t> phase_of;
    std::size_t loads = 0;
    for (std::size_t i = 0; i < split.workers.size(); ++i) {
        const abi::WorkerRange& range = split.workers[i];
        for (abi::U32 r = 0; r < range.record_count; ++r) {
            const abi::Record& record = split.records.at(range.first_record + r);
            EXPECT_EQ(record.wait_count, 0U);
            EXPECT_EQ(record.signal_count, 0U);
            EXPECT_TRUE(phase_of.emplace(record.task, i / plan.workers.size()).second);
        }
        EXPECT_EQ(range.first_load, loads);
        loads += range.load_count;
    }
    EXPECT_EQ(phase_of.size(), plan.graph.tasks.size());
    std::size_t streamed = 0;
    for (const Worker& worker : plan.workers) streamed += worker.stream.size();
    EXPECT_GT(streamed, 0U);
    EXPECT_EQ(loads, streamed);
    for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t) {
        EXPECT_EQ(phase_of.at(static_cast<abi::U32>(t)), plan.graph.tasks[t].region.index());
    }
}

TEST(Phases, KeepTheOrderOfRegionsThatShareArenaBytes) {
    sample::PlanBuilder builder;
    const Shape space{64};
    const BufferId x = builder.buffer("x", DType::F32, space, BufferRole::Input);
    const BufferId a = builder.buffer("a", DType::F32, space, BufferRole::Arena);
    const BufferId b = builder.buffer("b", DType::F32, space, BufferRole::Arena);
    const BufferId y = builder.buffer("y", DType::F32, space, BufferRole::Output);
    const BufferId z = builder.buffer("z", DType::F32, space, BufferRole::Output);
    const std::array<Range, 4> tile{Range{0, 64}, {}, {}, {}};
    builder.add("a#0", sample::square(builder, x, a, space), tile);
    builder.add("y#1", sample::square(builder, a, y, space), tile);
    builder.add("b#2", sample::square(builder, x, b, space), tile);
    builder.add("z#3", sample::square(builder, b, z, space), tile);
    const Machine machine = builtin_machine("h200");
    Plan plan = builder.finish(machine);
    plan.graph.tasks[1].after = {{0, 1}};
    plan.graph.tasks[3].after = {{2, 3}};
    EXPECT_EQ(cuda::phases(plan, emit(plan, machine)).count, 2U);
    plan.offsets[b.index()] = plan.offsets[a.index()];
    EXPECT_EQ(cuda::phases(plan, emit(plan, machine)).count, 4U);
}

}  // namespace
}  // namespace stretto
