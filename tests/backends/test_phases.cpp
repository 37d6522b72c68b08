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

}  // namespace
}  // namespace stretto
