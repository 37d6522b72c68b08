#include <gtest/gtest.h>

#include "verify/plans.h"

namespace stretto {
namespace {

/// a writes x on worker 0, b reads it on worker 1 and writes the output.
struct Pair {
    PlanBuilder plan{2};
    TaskId a;
    TaskId b;

    Pair() {
        plan.buffer("in", 64, BufferRole::Input);
        plan.buffer("x", 64);
        plan.buffer("out", 64, BufferRole::Output);
        a = plan.task("a", 0, {{"in", 0, 64}}, {{"x", 0, 64}});
        b = plan.task("b", 1, {{"x", 0, 64}}, {{"out", 0, 64}});
    }
};

TEST(Verify, AcceptsAnOrderedPair) {
    Pair pair;
    pair.plan.hand_off(pair.a, pair.b);
    EXPECT_EQ(faults_of(pair.plan.finish()), "");
}

TEST(Verify, ReportsReadAfterWriteWithoutAHandOff) {
    EXPECT_EQ(faults_of(Pair().plan.finish()),
              "race: race on arena bytes [0, 256) of 'x': no hand-off orders these tasks\n"
              "  writes  #0 a on worker 0\n"
              "  reads   #1 b on worker 1\n"
              "  see the path: stretto explain model.stretto --tasks 0,1");
}

TEST(Verify, ReportsTheWrongDirection) {
    Pair pair;
    pair.plan.hand_off(pair.b, pair.a);
    EXPECT_EQ(faults_of(pair.plan.finish()),
              "race: race on arena bytes [0, 256) of 'x': the plan orders these tasks the wrong way round\n"
              "  writes  #0 a on worker 0\n"
              "  reads   #1 b on worker 1\n"
              "  see the path: stretto explain model.stretto --tasks 0,1");
}

TEST(Verify, ReportsWriteAfterReadOfState) {
    PlanBuilder plan(2);
    plan.buffer("cache", 8, BufferRole::State);
    plan.buffer("x", 8);
    plan.task("read", 0, {{"cache", 4, 8}}, {{"x", 0, 8}});
    plan.task("write", 1, {}, {{"cache", 0, 6}});
    EXPECT_EQ(faults_of(plan.finish()),
              "race: race on bytes [16, 24) of state 'cache': no hand-off orders these tasks\n"
              "  reads   #0 read on worker 0\n"
              "  writes  #1 write on worker 1\n"
              "  see the path: stretto explain model.stretto --tasks 0,1");
}

TEST(Verify, ReportsWriteAfterWrite) {
    PlanBuilder plan(2);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("first", 0, {}, {{"out", 0, 8}});
    plan.task("second", 1, {}, {{"out", 6, 8}});
    EXPECT_TRUE(has_fault(plan.finish(), Fault::Kind::Race));
}

TEST(Verify, AcceptsDisjointPartsWithoutOrder) {
    PlanBuilder plan(2);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("a", 0, {}, {{"out", 0, 4}});
    plan.task("a", 1, {}, {{"out", 4, 8}});
    EXPECT_EQ(faults_of(plan.finish()), "");
}

TEST(Verify, QueueOrderIsAHandOff) {
    PlanBuilder plan(1);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("a", 0, {}, {{"x", 0, 8}});
    plan.task("b", 0, {{"x", 0, 8}}, {{"out", 0, 8}});
    EXPECT_EQ(faults_of(plan.finish()), "");
}

TEST(Verify, OrderPassesThroughAThirdWorker) {
    PlanBuilder plan(3);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    const TaskId a = plan.task("a", 0, {}, {{"x", 0, 8}});
    const TaskId relay = plan.task("relay", 1, {}, {});
    const TaskId b = plan.task("b", 2, {{"x", 0, 8}}, {{"out", 0, 8}});
    plan.hand_off(a, relay);
    plan.hand_off(relay, b);
    EXPECT_EQ(faults_of(plan.finish()), "");
}

TEST(Verify, OneOfTwoSignalsOrdersNeitherSignaller) {
    PlanBuilder plan(3);
    plan.buffer("x", 8);
    plan.buffer("out", 4, BufferRole::Output);
    const TaskId left = plan.task("a", 0, {}, {{"x", 0, 4}});
    const TaskId right = plan.task("a", 1, {}, {{"x", 4, 8}});
    const TaskId b = plan.task("b", 2, {{"x", 0, 4}}, {{"out", 0, 4}});
    const EventId done = plan.event("a");
    plan.signal(left, done);
    plan.signal(right, done);
    plan.wait(b, done, 1);
    EXPECT_TRUE(has_fault(plan.finish(), Fault::Kind::Race));
}

TEST(Verify, OneOfTwoSignalsIsSureWhereTheOtherComesLater) {
    PlanBuilder plan(2);
    plan.buffer("x", 8);
    plan.buffer("out", 8, BufferRole::Output);
    const TaskId a = plan.task("a", 0, {}, {{"x", 0, 8}});
    const TaskId b = plan.task("b", 1, {{"x", 0, 8}}, {{"out", 0, 8}});
    const EventId phase = plan.event("phase");
    plan.signal(a, phase);
    plan.wait(b, phase, 1);
    plan.signal(b, phase);
    EXPECT_EQ(faults_of(plan.finish()), "");
}

TEST(Verify, ReportsADoubleWrite) {
    PlanBuilder plan(1);
    plan.buffer("out", 8, BufferRole::Output);
    plan.task("a", 0, {}, {{"out", 0, 5}});
    plan.task("a", 0, {}, {{"out", 4, 8}});
    EXPECT_EQ(
        faults_of(plan.finish()),
        "double write: double write of bytes [16, 20) of output 'out': tasks of one region must write apart\n"
        "  writes  #0 a on worker 0\n"
        "  writes  #1 a on worker 0\n"
        "  see the path: stretto explain model.stretto --tasks 0,1");
}

TEST(Verify, DataDependentWritesOfOneRegionMayShareABox) {
    PlanBuilder plan(2);
    plan.buffer("cache", 8, BufferRole::State);
    plan.task("scatter", 0, {}, {{"cache", 0, 8, true}});
    plan.task("scatter", 1, {}, {{"cache", 0, 8, true}});
    EXPECT_EQ(faults_of(plan.finish()), "");
}

TEST(Verify, ReportsBuffersThatShareBytesWhileInUse) {
    PlanBuilder plan(2);
    plan.buffer("x", 64);
    plan.buffer("y", 64);
    plan.buffer("out", 64, BufferRole::Output);
    const TaskId a = plan.task("a", 0, {}, {{"x", 0, 64}});
    plan.task("b", 1, {}, {{"y", 0, 64}});
    const TaskId c = plan.task("c", 1, {{"x", 0, 64}, {"y", 0, 64}}, {{"out", 0, 64}});
    plan.hand_off(a, c);
    Plan shared = plan.finish();
    EXPECT_EQ(faults_of(shared), "");
    shared.offsets[1] = shared.offsets[0];
    EXPECT_EQ(faults_of(shared),
              "race: race on arena bytes [0, 256), which two buffers share: no hand-off orders these tasks\n"
              "  writes  #0 a on worker 0 ('x')\n"
              "  writes  #1 b on worker 1 ('y')\n"
              "  see the path: stretto explain model.stretto --tasks 0,1");
}

TEST(Verify, ReportsAValueThatIsOverwrittenInOrder) {
    PlanBuilder plan(1);
    plan.buffer("x", 64);
    plan.buffer("y", 64);
    plan.buffer("out", 64, BufferRole::Output);
    plan.task("a", 0, {}, {{"x", 0, 64}});
    plan.task("b", 0, {}, {{"y", 0, 64}});
    plan.task("c", 0, {{"x", 0, 64}}, {{"out", 0, 64}});
    Plan shared = plan.finish();
    shared.offsets[1] = shared.offsets[0];
    EXPECT_EQ(
        faults_of(shared),
        "race: race on arena bytes [0, 256), which two buffers share: a value is overwritten before its last "
        "read\n"
        "  writes  #1 b on worker 0 ('y')\n"
        "  reads   #2 c on worker 0 ('x')\n"
        "  see the path: stretto explain model.stretto --tasks 1,2");
}

TEST(Verify, BytesMayBeSharedOnceTheLastReaderIsDone) {
    PlanBuilder plan(2);
    plan.buffer("x", 64);
    plan.buffer("y", 64);
    plan.buffer("z", 64);
    plan.buffer("out", 64, BufferRole::Output);
    const TaskId a = plan.task("a", 0, {}, {{"x", 0, 64}});
    const TaskId b = plan.task("b", 1, {{"x", 0, 64}}, {{"y", 0, 64}});
    const TaskId c = plan.task("c", 0, {{"y", 0, 64}}, {{"z", 0, 64}});
    const TaskId d = plan.task("d", 1, {{"z", 0, 64}}, {{"out", 0, 64}});
    plan.hand_off(a, b);
    plan.hand_off(b, c);
    plan.hand_off(c, d);
    Plan shared = plan.finish();
    shared.offsets[2] = shared.offsets[0];
    EXPECT_EQ(faults_of(shared), "");
}

TEST(Verify, BytesMayBeSharedTileByTileOnOneWorker) {
    PlanBuilder plan(2);
    plan.buffer("x", 128);
    plan.buffer("y", 128);
    plan.buffer("out", 128, BufferRole::Output);
    plan.buffer("other", 128, BufferRole::Output);
    for (int w = 0; w < 2; ++w) plan.task("a", w, {}, {{"x", w * 64, w * 64 + 64}});
    for (int w = 0; w < 2; ++w)
        plan.task("b", w, {{"x", w * 64, w * 64 + 64}}, {{"out", w * 64, w * 64 + 64}});
    for (int w = 0; w < 2; ++w) plan.task("c", w, {}, {{"y", w * 64, w * 64 + 64}});
    for (int w = 0; w < 2; ++w)
        plan.task("d", w, {{"y", w * 64, w * 64 + 64}}, {{"other", w * 64, w * 64 + 64}});
    Plan shared = plan.finish();
    shared.offsets[1] = shared.offsets[0];
    EXPECT_EQ(faults_of(shared), "");
}

TEST(Verify, ReportsAtMostSixtyFourFaultsOfAKind) {
    PlanBuilder plan(2);
    plan.buffer("x", 100);
    plan.buffer("out", 100, BufferRole::Output);
    for (int i = 0; i < 100; ++i) plan.task("a", 0, {}, {{"x", i, i + 1}});
    for (int i = 0; i < 100; ++i) plan.task("b", 1, {{"x", i, i + 1}}, {{"out", i, i + 1}});
    EXPECT_EQ(verify(plan.finish()).size(), 64U);
}

}  // namespace
}  // namespace stretto
