#include <gtest/gtest.h>

#include <ctime>

#include "cost/plans.h"
#include "cost/simulate.h"

namespace stretto {
namespace {

/// A machine whose arithmetic is free, so that only the stream counts.
Machine streaming_machine() {
    Machine machine = plain_machine();
    machine.flops = 1e12;
    return machine;
}

TEST(Simulate, IndependentTasksOverlap) {
    CostPlan cost(2);
    cost.compute(0, 10);
    cost.compute(1, 4);
    EXPECT_DOUBLE_EQ(simulate(cost.plan, plain_machine()).total, 10);
}

TEST(Simulate, TasksOfOneQueueFollowEachOther) {
    CostPlan cost(1);
    cost.compute(0, 10);
    cost.compute(0, 4);
    EXPECT_DOUBLE_EQ(simulate(cost.plan, plain_machine()).total, 14);
}

TEST(Simulate, ACounterCostsWhatTheMachineSays) {
    CostPlan cost(2);
    const TaskId a = cost.compute(0, 10);
    cost.hand_off(a, cost.compute(1, 4));
    const Simulation simulation = simulate(cost.plan, plain_machine());
    EXPECT_DOUBLE_EQ(simulation.tasks[1].start, 13);
    EXPECT_EQ(simulation.hand_offs, 1);
}

TEST(Simulate, ABarrierCostsWhatTheMachineSays) {
    CostPlan cost(2);
    const TaskId a = cost.compute(0, 10);
    cost.hand_off(a, cost.compute(1, 4), HandOff::Barrier);
    EXPECT_DOUBLE_EQ(simulate(cost.plan, plain_machine()).tasks[1].start, 17);
}

TEST(Simulate, WordsCostTheirHandOffAndTheirPolls) {
    CostPlan cost(2);
    const TaskId a = cost.compute(0, 10);
    const TaskId b = cost.compute(1, 4);
    cost.plan.graph.regions.buffers.push_back({"x", DType::F32, {16}, BufferRole::Arena, nullptr, true});
    cost.plan.offsets.push_back(0);
    cost.plan.graph.tasks[a.index()].writes.push_back({BufferId(2), {{0, 16}}, false});
    cost.plan.graph.tasks[b.index()].reads.push_back({BufferId(2), {{0, 16}}, false});
    Machine machine = plain_machine();
    machine.word_us = 2;
    machine.word_byte_us = 1.0 / (16 * kWordBytes);
    const Simulation simulation = simulate(cost.plan, machine);
    EXPECT_DOUBLE_EQ(simulation.tasks[1].start, 13);
    EXPECT_EQ(simulation.hand_offs, 1);
}

TEST(Simulate, AWorkerKnowsItsOwnSignalsAtOnce) {
    CostPlan cost(1);
    const TaskId a = cost.compute(0, 10);
    cost.hand_off(a, cost.compute(0, 4));
    EXPECT_DOUBLE_EQ(simulate(cost.plan, plain_machine()).total, 14);
}

TEST(Simulate, FurtherSignalsAndWaitsCostWhatTheMachineSays) {
    CostPlan cost(2);
    const TaskId a = cost.compute(0, 10);
    const TaskId b = cost.compute(1, 4);
    cost.hand_off(a, b);
    cost.hand_off(a, b);
    Machine machine = plain_machine();
    machine.signal_us = 0.5;
    machine.counter_wait_us = 0.25;
    EXPECT_DOUBLE_EQ(simulate(cost.plan, machine).tasks[1].start, 13.75);
}

TEST(Simulate, EveryTaskPaysItsStart) {
    CostPlan cost(1);
    cost.compute(0, 10);
    cost.compute(0, 10);
    Machine machine = plain_machine();
    machine.task_us = 2;
    EXPECT_DOUBLE_EQ(simulate(cost.plan, machine).total, 24);
}

TEST(Simulate, TheBusLimitsALoneStream) {
    CostPlan cost(1);
    cost.product(0, 6);
    const Simulation simulation = simulate(cost.plan, streaming_machine());
    EXPECT_NEAR(simulation.total, 12, 1e-6);
    EXPECT_NEAR(simulation.bus_idle, 0, 1e-6);
}

TEST(Simulate, WorkersShareTheBus) {
    CostPlan cost(2);
    cost.product(0, 6);
    cost.product(1, 6);
    EXPECT_NEAR(simulate(cost.plan, streaming_machine()).total, 24, 1e-6);
}

TEST(Simulate, LoadsRunAheadWhileATaskComputes) {
    CostPlan cost(1, 6);
    cost.compute(0, 12);
    cost.product(0, 6);
    Machine machine = streaming_machine();
    machine.task_us = 12;
    EXPECT_NEAR(simulate(cost.plan, machine).total, 24, 1e-6);
}

TEST(Simulate, AFullRingStopsTheLoader) {
    CostPlan cost(1, 2);
    cost.compute(0, 1000);
    cost.product(0, 6);
    const Simulation simulation = simulate(cost.plan, plain_machine());
    const double computing = 1000 + 2.0 * 6 * 100;
    EXPECT_NEAR(simulation.total, computing, 1e-6);
    EXPECT_NEAR(simulation.bus_idle, computing - 6 * 2, 1e-6);
}

TEST(Simulate, TheCriticalPathNamesTheTasksThatDecide) {
    CostPlan cost(3);
    const TaskId slow = cost.compute(0, 10);
    const TaskId quick = cost.compute(1, 2);
    const TaskId last = cost.compute(2, 1);
    cost.hand_off(slow, last);
    cost.hand_off(quick, last);
    EXPECT_EQ(simulate(cost.plan, plain_machine()).critical_path, (std::vector<TaskId>{slow, last}));
}

TEST(Simulate, PlaysTwentyFiveThousandTasksInUnderASecond) {
    constexpr int kWorkers = 132;
    CostPlan cost(kWorkers, 7);
    EventId before;
    for (int phase = 0; phase < 190; ++phase) {
        const EventId event(static_cast<std::int64_t>(cost.plan.events.size()));
        cost.plan.events.push_back({HandOff::Counter, kWorkers, "phase"});
        for (int w = 0; w < kWorkers; ++w) {
            cost.product(w, 4);
            Step& step = cost.plan.workers[static_cast<std::size_t>(w)].queue.back();
            if (before.valid()) step.waits.push_back({before, kWorkers});
            step.signals.push_back(event);
        }
        before = event;
    }
    const std::clock_t start = std::clock();
    EXPECT_GT(simulate(cost.plan, plain_machine()).total, 0);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 1.0);
}

}  // namespace
}  // namespace stretto
