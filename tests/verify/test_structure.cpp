#include <gtest/gtest.h>

#include "verify/plans.h"

namespace stretto {
namespace {

Plan two_tasks() {
    PlanBuilder plan(2);
    plan.buffer("x", 64);
    plan.buffer("out", 64, BufferRole::Output);
    const TaskId a = plan.task("a", 0, {}, {{"x", 0, 64}});
    const TaskId b = plan.task("b", 1, {{"x", 0, 64}}, {{"out", 0, 64}});
    plan.hand_off(a, b);
    return plan.finish();
}

TEST(Verify, ReportsATaskOnNoWorker) {
    Plan plan = two_tasks();
    plan.workers[1].queue.clear();
    EXPECT_EQ(faults_of(plan), "malformed: #1 b is on no worker");
}

TEST(Verify, ReportsATaskScheduledTwice) {
    Plan plan = two_tasks();
    plan.workers[1].queue.push_back({TaskId(1), {}, {}});
    EXPECT_EQ(faults_of(plan), "malformed: #1 b is scheduled 2 times");
}

TEST(Verify, ReportsATaskNumberOutsideTheTable) {
    Plan plan = two_tasks();
    plan.workers[0].queue.push_back({TaskId(7), {}, {}});
    EXPECT_EQ(faults_of(plan), "malformed: worker 0 queues task number 7, and there are 2");
}

TEST(Verify, ReportsAnEventNumberOutsideTheTable) {
    Plan plan = two_tasks();
    plan.workers[1].queue[0].waits.push_back({EventId(3), 1});
    EXPECT_EQ(faults_of(plan), "malformed: #1 b waits for event number 3, and there are 1");
}

TEST(Verify, ReportsAnEventTotalThatTheQueuesDoNotSend) {
    Plan plan = two_tasks();
    plan.events[0].signals = 2;
    EXPECT_EQ(faults_of(plan), "malformed: event #0 'a' declares 2 signals a launch, and the queues send 1");
}

TEST(Verify, ReportsTaskRangesThatDoNotFitTheTasks) {
    Plan plan = two_tasks();
    plan.graph.tasks_of[1].end = 3;
    EXPECT_EQ(faults_of(plan),
              "malformed: region 'b' claims tasks [1, 3), expected them to begin at 1 and to end by 2");
}

TEST(Verify, ReportsAPlanWithoutOffsets) {
    Plan plan = two_tasks();
    plan.offsets.clear();
    EXPECT_EQ(faults_of(plan), "malformed: 0 arena offsets for 2 buffers: run the memory stage first");
}

TEST(Verify, ReportsAWriteOfAParameter) {
    PlanBuilder plan(1);
    plan.buffer("weight", 4, BufferRole::Parameter);
    plan.task("a", 0, {}, {{"weight", 0, 4}});
    EXPECT_EQ(faults_of(plan.finish()), "malformed: #0 a writes 'weight', which a program may only read");
}

TEST(Verify, ReportsAMisalignedBuffer) {
    Plan plan = two_tasks();
    plan.arena_bytes += 16;
    plan.offsets[0] = 16;
    EXPECT_EQ(faults_of(plan), "malformed: buffer 'x' at arena offset 16, which is no multiple of 256");
}

TEST(Verify, ReportsABoxOutsideItsBuffer) {
    Plan plan = two_tasks();
    plan.graph.tasks[1].reads[0].box = {{0, 65}};
    EXPECT_EQ(faults_of(plan), "out of bounds: #1 b reads [0:65] of 'x', whose shape is [0:64]");
}

TEST(Verify, ReportsABufferOutsideTheArena) {
    Plan plan = two_tasks();
    plan.offsets[0] = 256;
    EXPECT_EQ(faults_of(plan),
              "out of bounds: buffer 'x' at arena bytes [256, 512), and the arena has 256 bytes");
}

TEST(Verify, ReportsTooManyWaits) {
    PlanBuilder plan(1);
    const TaskId first = plan.task("first", 0, {}, {});
    const TaskId last = plan.task("last", 0, {}, {});
    for (std::size_t i = 0; i <= kMaxWaits; ++i) {
        const EventId event = plan.event("e");
        if (i < kMaxSignals) plan.signal(first, event);
        plan.wait(last, event, i < kMaxSignals ? 1 : 0);
    }
    EXPECT_EQ(faults_of(plan.finish()), "capacity: #1 last has 7 waits, and a record holds 6");
}

TEST(Verify, ReportsTooManySignals) {
    PlanBuilder plan(1);
    const TaskId task = plan.task("a", 0, {}, {});
    for (std::size_t i = 0; i <= kMaxSignals; ++i) plan.signal(task, plan.event("e"));
    EXPECT_EQ(faults_of(plan.finish()), "capacity: #0 a has 5 signals, and a record holds 4");
}

TEST(Verify, ReportsMoreWorkersThanTheMachineKeepsResident) {
    Plan plan = two_tasks();
    plan.machine = "h200";
    plan.workers.resize(133);
    EXPECT_EQ(faults_of(plan), "capacity: the plan has 133 workers, and 'h200' keeps 132 resident");
}

TEST(Verify, ReportsMoreSharedMemoryThanTheMachineHas) {
    Plan plan = two_tasks();
    plan.machine = "h200";
    plan.shared.slots = 10;
    plan.shared.slot_bytes = 24576;
    plan.shared.scratch_bytes = 0;
    EXPECT_EQ(faults_of(plan),
              "capacity: the plan uses 245760 bytes of shared memory a worker, and 'h200' has 232448");
}

TEST(Verify, ReportsAfterThatNamesALaterTask) {
    Plan plan = two_tasks();
    plan.graph.tasks[0].after = {{1, 2}};
    EXPECT_EQ(faults_of(plan),
              "dependency: #0 a comes after tasks [1, 2), which are not all of earlier regions");
}

}  // namespace
}  // namespace stretto
