#include <gtest/gtest.h>

#include "verify/plans.h"

namespace stretto {
namespace {

/// a writes x on worker 0, b reads it on worker 1, and x travels as words.
struct TwoTasks {
    TwoTasks() {
        plan.buffer("x", 8);
        plan.buffer("y", 8);
        plan.buffer("out", 8, BufferRole::Output);
        plan.tag("x");
        a = plan.task("a", 0, {}, {{"x", 0, 8}, {"y", 0, 8}});
    }

    PlanBuilder plan{2};
    TaskId a;
};

TEST(VerifyWords, AReaderNeedsNoCounterForWords) {
    TwoTasks test;
    test.plan.task("b", 1, {{"x", 0, 8}}, {{"out", 0, 8}});
    EXPECT_EQ(faults_of(test.plan.finish()), "");
}

TEST(VerifyWords, APlainReadCannotLeanOnThem) {
    TwoTasks test;
    test.plan.task("b", 1, {{"x", 0, 8}, {"y", 0, 8}}, {{"out", 0, 8}});
    EXPECT_EQ(faults_of(test.plan.finish()),
              "race: race on arena bytes [256, 288) of 'y': no hand-off orders these tasks\n"
              "  writes  #0 a on worker 0\n"
              "  reads   #1 b on worker 1\n"
              "  see the path: stretto explain model.stretto --tasks 0,1");
}

TEST(VerifyWords, AWriteAfterAReadCannotLeanOnThem) {
    PlanBuilder plan(2);
    plan.buffer("state", 8, BufferRole::State);
    plan.buffer("x", 8);
    plan.tag("x");
    plan.task("a", 0, {{"state", 0, 8}}, {{"x", 0, 8}});
    plan.task("b", 1, {{"x", 0, 8}}, {{"state", 0, 8}});
    EXPECT_TRUE(has_fault(plan.finish(), Fault::Kind::Race));
}

TEST(VerifyWords, OrderDoesNotPassThroughThem) {
    PlanBuilder plan(3);
    plan.buffer("y", 8);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    plan.tag("x");
    const TaskId a = plan.task("a", 0, {}, {{"y", 0, 8}});
    const TaskId b = plan.task("b", 1, {{"y", 0, 8}}, {{"x", 0, 8}});
    plan.task("c", 2, {{"x", 0, 8}, {"y", 0, 8}}, {{"out", 0, 8}});
    plan.hand_off(a, b);
    EXPECT_TRUE(has_fault(plan.finish(), Fault::Kind::Race));
}

TEST(VerifyWords, ReportsAWordThatNobodyWrites) {
    PlanBuilder plan(2);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    plan.tag("x");
    plan.task("a", 0, {}, {{"x", 0, 7}});
    plan.task("b", 1, {{"x", 0, 8}}, {{"out", 0, 8}});
    EXPECT_EQ(faults_of(plan.finish()),
              "uninitialized: read of arena bytes [56, 64) of 'x': no earlier region writes [7:8] of it\n"
              "  reads   #1 b on worker 1");
}

TEST(VerifyWords, ReportsTwoWritersOfOneWord) {
    PlanBuilder plan(2);
    plan.buffer("x", 8);
    plan.tag("x");
    const TaskId a = plan.task("a", 0, {}, {{"x", 0, 8}});
    plan.hand_off(a, plan.task("b", 1, {}, {{"x", 4, 5}}));
    EXPECT_EQ(faults_of(plan.finish()),
              "double write: double write of arena bytes [32, 40) of 'x': a word is written once\n"
              "  writes  #0 a on worker 0\n"
              "  writes  #1 b on worker 1\n"
              "  see the path: stretto explain model.stretto --tasks 0,1");
}

TEST(VerifyWords, ReportsWordsThatMayStayUnwritten) {
    PlanBuilder plan(1);
    plan.buffer("x", 8);
    plan.tag("x");
    plan.task("a", 0, {}, {{"x", 0, 8, true}});
    EXPECT_EQ(faults_of(plan.finish()),
              "malformed: #0 a may leave words of 'x' unwritten, for which readers then wait in vain");
}

TEST(VerifyWords, ReportsATagOutsideTheArena) {
    PlanBuilder plan(1);
    plan.buffer("out", 8, BufferRole::Output);
    plan.tag("out");
    plan.task("a", 0, {}, {{"out", 0, 8}});
    EXPECT_EQ(faults_of(plan.finish()),
              "malformed: 'out' is tagged: only arena buffers of 16- or 32-bit elements can be");
}

TEST(VerifyWords, ReportsPackedWordsOfAnythingButTaggedFloats) {
    PlanBuilder plan(1);
    plan.buffer("x", 8);
    plan.task("a", 0, {}, {{"x", 0, 8}});
    Plan finished = plan.finish();
    Buffer& x = finished.graph.regions.buffers[0];
    x.packed = true;
    const std::string packed = "malformed: 'x' is packed: only tagged buffers of floats can be";
    EXPECT_EQ(faults_of(finished), packed);
    x.tagged = true;
    EXPECT_EQ(faults_of(finished), "");
    x.dtype = DType::I32;
    EXPECT_EQ(faults_of(finished), packed);
}

TEST(VerifyWords, ReportsBytesThatWordsShareEvenInOrder) {
    TwoTasks test;
    test.plan.buffer("z", 8);
    test.plan.task("b", 0, {{"x", 0, 8}}, {{"out", 0, 8}});
    test.plan.task("c", 0, {}, {{"z", 0, 8}});
    Plan plan = test.plan.finish();
    EXPECT_EQ(faults_of(plan), "");
    plan.offsets[3] = plan.offsets[0];
    EXPECT_EQ(faults_of(plan),
              "race: the words of 'x' at arena bytes [0, 64) share bytes with 'z' at [0, 32), whose stores "
              "would change their tags");
}

TEST(VerifyWords, ReportsWorkersThatWaitForEachOthersWords) {
    PlanBuilder plan(2);
    for (const char* name : {"x", "y"}) {
        plan.buffer(name, 8);
        plan.tag(name);
    }
    plan.buffer("out", 16, BufferRole::Output);
    plan.task("a", 0, {{"y", 0, 8}}, {{"out", 0, 8}});
    plan.task("b", 0, {}, {{"x", 0, 8}});
    plan.task("c", 1, {{"x", 0, 8}}, {{"out", 8, 16}});
    plan.task("d", 1, {}, {{"y", 0, 8}});
    EXPECT_EQ(faults_of(plan.finish()),
              "cycle: workers that wait for each other forever:\n"
              "  #0 a on worker 0 waits for words of 'y', which needs #3 d on worker 1\n"
              "  #2 c on worker 1 waits for words of 'x', which needs #1 b on worker 0");
}

TEST(VerifyWords, ReportsWordsThatTheReadersOwnWorkerWritesLater) {
    PlanBuilder plan(1);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    plan.tag("x");
    plan.task("a", 0, {{"x", 0, 8}}, {{"out", 0, 8}});
    plan.task("b", 0, {}, {{"x", 0, 8}});
    EXPECT_EQ(faults_of(plan.finish()),
              "unreachable: words of 'x' that can never come: #1 b writes them only after its reader\n"
              "  waits   #0 a on worker 0");
}

}  // namespace
}  // namespace stretto
