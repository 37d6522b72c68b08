#include <gtest/gtest.h>

#include "verify/plans.h"

namespace stretto {
namespace {

TEST(Verify, ReportsWorkersThatWaitForEachOther) {
    PlanBuilder plan(2);
    const TaskId a = plan.task("a", 0, {}, {});
    const TaskId b = plan.task("b", 0, {}, {});
    const TaskId c = plan.task("c", 1, {}, {});
    const TaskId d = plan.task("d", 1, {}, {});
    plan.hand_off(d, a);
    plan.hand_off(b, c);
    EXPECT_EQ(faults_of(plan.finish()),
              "cycle: workers that wait for each other forever:\n"
              "  #0 a on worker 0 waits for event #0 'd' (0 of 1 signals), which needs #3 d on worker 1\n"
              "  #2 c on worker 1 waits for event #1 'b' (0 of 1 signals), which needs #1 b on worker 0");
}

TEST(Verify, AWorkerBehindACycleIsNotASecondCycle) {
    PlanBuilder plan(3);
    const TaskId a = plan.task("a", 0, {}, {});
    const TaskId b = plan.task("b", 1, {}, {});
    const TaskId c = plan.task("c", 2, {}, {});
    plan.hand_off(a, b);
    plan.hand_off(b, a);
    plan.hand_off(b, c);
    EXPECT_EQ(verify(plan.finish()).size(), 1U);
}

TEST(Verify, ReportsAWaitAboveItsEvent) {
    PlanBuilder plan(2);
    const TaskId a = plan.task("a", 0, {}, {});
    const TaskId b = plan.task("b", 1, {}, {});
    const EventId done = plan.event("a");
    plan.signal(a, done);
    plan.wait(b, done, 2);
    EXPECT_EQ(faults_of(plan.finish()),
              "unreachable: wait that can never hold: event #0 'a' gets at most 1 signals before it, and it "
              "needs 2\n"
              "  waits   #1 b on worker 1");
}

TEST(Verify, ReportsAWaitForAnOwnLaterSignal) {
    PlanBuilder plan(1);
    const TaskId a = plan.task("a", 0, {}, {});
    plan.hand_off(a, a);
    EXPECT_EQ(faults_of(plan.finish()),
              "unreachable: wait that can never hold: event #0 'a' gets at most 0 signals before it, and it "
              "needs 1\n"
              "  waits   #0 a on worker 0");
}

TEST(Verify, AWaitOfTargetZeroHoldsAtOnce) {
    PlanBuilder plan(1);
    const TaskId a = plan.task("a", 0, {}, {});
    plan.wait(a, plan.event("nothing"), 0);
    EXPECT_EQ(faults_of(plan.finish()), "");
}

}  // namespace
}  // namespace stretto
