#include <gtest/gtest.h>

#include "verify/plans.h"

namespace stretto {
namespace {

/// Two tasks of one product: rows of 64 BF16 elements, eight of which take 1088 bytes of a slot.
struct Product {
    PlanBuilder builder{2};

    Product() {
        builder.buffer("weight", 64 * 32, BufferRole::Parameter);
        builder.product("linear", 0, "weight", 64, {0, 12});
        builder.product("linear", 1, "weight", 64, {12, 32});
    }
};

TEST(Verify, AcceptsTheLoadsThatTasksConsume) { EXPECT_EQ(faults_of(Product().builder.finish()), ""); }

TEST(Verify, ReportsSwappedLoads) {
    Plan plan = Product().builder.finish();
    std::swap(plan.workers[1].stream[0], plan.workers[1].stream[1]);
    EXPECT_EQ(faults_of(plan),
              "stream: load 0 of worker 1 differs from what its tasks consume\n"
              "  found   bytes [2560, 2688) and 7 rows more, 128 bytes apart, of 'weight' for #1 linear\n"
              "  needed  bytes [1536, 1664) and 7 rows more, 128 bytes apart, of 'weight' for #1 linear");
}

TEST(Verify, ReportsAMissingLoad) {
    Plan plan = Product().builder.finish();
    plan.workers[0].stream.pop_back();
    EXPECT_EQ(faults_of(plan),
              "stream: load 1 of worker 0 differs from what its tasks consume\n"
              "  found   no more loads\n"
              "  needed  bytes [1024, 1152) and 3 rows more, 128 bytes apart, of 'weight' for #0 linear");
}

TEST(Verify, ReportsARingThatStarves) {
    Plan plan = Product().builder.finish();
    plan.shared.slots = 0;
    EXPECT_EQ(faults_of(plan),
              "stream: the ring starves 'linear': it needs 1 slots at once, and the ring has 0");
}

TEST(Verify, ReportsALoadThatExceedsASlot) {
    Plan plan = Product().builder.finish();
    plan.shared.slot_bytes = 1087;
    EXPECT_EQ(
        faults_of(plan),
        "stream: load 0 of worker 0 exceeds a ring slot of 1087 bytes: bytes [0, 128) and 7 rows more, 128 "
        "bytes apart, of 'weight' for #0 linear\n"
        "stream: load 0 of worker 1 exceeds a ring slot of 1087 bytes: bytes [1536, 1664) and 7 rows more, "
        "128 bytes apart, of 'weight' for #1 linear");
}

TEST(Verify, ReportsRowsThatAreMissing) {
    Plan plan = Product().builder.finish();
    plan.workers[0].stream[1].rows = 3;
    EXPECT_TRUE(has_fault(plan, Fault::Kind::Stream));
}

TEST(Verify, ReportsAStreamOfWhatTheLaunchWrites) {
    PlanBuilder plan(1);
    plan.buffer("weight", 64 * 8, BufferRole::State);
    plan.task("update", 0, {}, {{"weight", 0, 64}});
    plan.product("linear", 0, "weight", 64, {0, 8});
    EXPECT_EQ(faults_of(plan.finish()),
              "stream: 'linear' streams 'weight', which this launch writes: a loader waits for nothing");
}

}  // namespace
}  // namespace stretto
