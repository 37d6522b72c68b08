#include <gtest/gtest.h>

#include "backends/reference/judge.h"

namespace stretto {
namespace {

/// Two regions on two workers: a writes an arena buffer in two halves, b reads all of it.
class TwoRegions {
public:
    TwoRegions() {
        const auto buffer = [&](BufferRole role) {
            plan.graph.regions.buffers.push_back(
                {"b" + std::to_string(plan.graph.regions.buffers.size()), DType::F32, {8}, role, nullptr});
        };
        buffer(BufferRole::Arena);
        buffer(BufferRole::Output);
        plan.graph.regions.regions = {{"a", MapRegion{}}, {"b", MapRegion{}}};
        add_task(0, {}, {{BufferId(0), {{0, 4}}, false}});
        add_task(0, {}, {{BufferId(0), {{4, 8}}, false}});
        add_task(1, {{BufferId(0), {{0, 8}}, false}}, {{BufferId(1), {{0, 8}}, false}});
        plan.workers.resize(2);
        plan.workers[0].queue = {{TaskId(0), {}, {EventId(0)}}};
        plan.workers[1].queue = {{TaskId(1), {}, {EventId(0)}}, {TaskId(2), {{EventId(0), 2}}, {}}};
        plan.events = {{HandOff::Counter, 2, "a"}};
        plan.offsets = {0, -1};
        plan.arena_bytes = 32;
    }

    Wait& wait() { return plan.workers[1].queue[1].waits[0]; }

    Plan plan;

private:
    void add_task(int region, std::vector<Footprint> reads, std::vector<Footprint> writes) {
        Task task;
        task.region = RegionId(region);
        task.reads = std::move(reads);
        task.writes = std::move(writes);
        plan.graph.tasks.push_back(std::move(task));
    }
};

testing::AssertionResult finds(const Plan& plan, const std::string& text) {
    const std::vector<std::string> faults = exhaustive_check(plan);
    for (const std::string& fault : faults) {
        if (fault.find(text) != std::string::npos) return testing::AssertionSuccess();
    }
    auto result = testing::AssertionFailure() << "the judge finds:";
    for (const std::string& fault : faults) result << "\n  " << fault;
    return result;
}

TEST(Judge, AcceptsAPlanThatWaitsForAllWriters) { EXPECT_TRUE(exhaustive_check(TwoRegions().plan).empty()); }

TEST(Judge, CountsOutASignalThatCannotComeBeforeTheWait) {
    // Three signals and a target of two: the third comes from a task behind the waiter, so both others are needed.
    TwoRegions test;
    test.plan.workers[1].queue[1].signals = {EventId(0)};
    test.plan.events[0].signals = 3;
    EXPECT_TRUE(exhaustive_check(test.plan).empty());
}

TEST(Judge, FindsARaceWhereTheTargetMayBeReachedWithoutOneWriter) {
    TwoRegions test;
    test.wait().target = 1;
    EXPECT_TRUE(finds(test.plan, "race: tasks #0 a and #2 b"));
}

TEST(Judge, FindsARaceWhereAWaitIsMissing) {
    TwoRegions test;
    test.plan.workers[1].queue[1].waits.clear();
    EXPECT_TRUE(finds(test.plan, "race: tasks #0 a and #2 b"));
}

TEST(Judge, FindsAPlanThatGetsStuck) {
    TwoRegions test;
    std::swap(test.plan.workers[1].queue[0], test.plan.workers[1].queue[1]);
    EXPECT_TRUE(finds(test.plan, "the plan gets stuck"));
}

TEST(Judge, FindsAnOrderThatIsReversed) {
    TwoRegions test;
    test.wait().target = 1;
    test.plan.workers[1].queue = {{TaskId(2), {}, {EventId(0)}}, {TaskId(1), {}, {}}};
    test.plan.workers[0].queue[0].waits = {{EventId(0), 1}};
    EXPECT_TRUE(finds(test.plan, "order of the program is reversed"));
}

TEST(Judge, FindsBytesThatNobodyWrote) {
    TwoRegions test;
    test.plan.graph.tasks[0].writes[0].box = {{0, 3}};
    EXPECT_TRUE(finds(test.plan, "task #2 b reads bytes [12, 16) of 'b0' that no task before it wrote"));
}

TEST(Judge, FindsEventsThatReceiveAnotherNumberOfSignals) {
    TwoRegions test;
    test.plan.events[0].signals = 3;
    EXPECT_TRUE(finds(test.plan, "event 0 receives 2 signals in a launch, but states 3"));
}

TEST(Judge, FindsOutputBytesWithoutAWriter) {
    TwoRegions test;
    test.plan.graph.tasks[2].writes[0].box = {{0, 6}};
    EXPECT_TRUE(finds(test.plan, "nobody writes bytes [24, 32) of output 'b1'"));
}

TEST(Judge, FindsATaskThatIsScheduledTwice) {
    TwoRegions test;
    test.plan.workers[0].queue.push_back(test.plan.workers[0].queue[0]);
    EXPECT_TRUE(finds(test.plan, "task #0 is scheduled 2 times"));
}

TEST(Judge, FindsABufferOutsideTheArena) {
    TwoRegions test;
    test.plan.offsets[0] = 4;
    EXPECT_TRUE(finds(test.plan, "buffer 'b0' lies outside the arena"));
}

}  // namespace
}  // namespace stretto
