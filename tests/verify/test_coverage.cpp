#include <gtest/gtest.h>

#include "verify/plans.h"

namespace stretto {
namespace {

TEST(Verify, ReportsAReadThatNobodyWrote) {
    PlanBuilder plan(1);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("a", 0, {{"x", 0, 8}}, {{"out", 0, 8}});
    EXPECT_EQ(faults_of(plan.finish()),
              "uninitialized: read of arena bytes [0, 32) of 'x': no earlier region writes [0:8] of it\n"
              "  reads   #0 a on worker 0");
}

TEST(Verify, ReportsAReadThatIsWrittenInPart) {
    PlanBuilder plan(1);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("a", 0, {}, {{"x", 0, 3}, {"x", 5, 8}});
    plan.task("b", 0, {{"x", 0, 8}}, {{"out", 0, 8}});
    EXPECT_EQ(faults_of(plan.finish()),
              "uninitialized: read of arena bytes [12, 20) of 'x': no earlier region writes [3:5] of it\n"
              "  reads   #1 b on worker 0");
}

TEST(Verify, ADataDependentWriteInitializesNothing) {
    PlanBuilder plan(1);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("a", 0, {}, {{"x", 0, 8, true}});
    plan.task("b", 0, {{"x", 0, 8}}, {{"out", 0, 8}});
    EXPECT_TRUE(has_fault(plan.finish(), Fault::Kind::Uninitialized));
}

TEST(Verify, StateIsInitializedFromOutside) {
    PlanBuilder plan(1);
    plan.buffer("state", 8, BufferRole::State);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("a", 0, {{"state", 0, 8}}, {{"out", 0, 8}});
    EXPECT_EQ(faults_of(plan.finish()), "");
}

TEST(Verify, ReportsOutputBytesWithoutAWriter) {
    PlanBuilder plan(1);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("a", 0, {}, {{"out", 0, 2}});
    plan.task("a", 0, {}, {{"out", 3, 8}});
    EXPECT_EQ(faults_of(plan.finish()), "missing write: no task writes [2:3] of output 'out'");
}

}  // namespace
}  // namespace stretto
