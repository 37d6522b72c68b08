#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "schedule/text.h"
#include "support/mutation.h"
#include "support/plan_generators.h"

namespace stretto {
namespace {

namespace gen = generators;

constexpr std::string_view kPlan = R"(plan "test"
shared 2 slots of 1024 scratch 512 warps 8
buffer b0 = parameter "w" : f32[8, 64]
buffer b1 = arena "y" : f32[8, 64]
buffer b2 = output "z" : f32[8, 64]
region r0 = map [8, 64] "neg#1" {
    store b1 : f32 [8:64, 64:1] = {
        a0 = b0 : f32 [8:64, 64:1]
        x0 = load a0 : f32
        x1 = neg x0 : f32
    }
}
region r1 = map [8, 64] "exp#2" {
    store b2 : f32 [8:64, 64:1] = {
        a0 = b1 : f32 [8:64, 64:1]
        x0 = load a0 : f32
        x1 = exp x0 : f32
    }
}
tasks r0 0..1
tasks r1 1..2
task t0 = r0 [0..512, 0..0, 0..0, 0..0] reads b0[0..8, 0..64] writes b1[0..8, 0..64]
task t1 = r1 [0..512, 0..0, 0..0, 0..0] reads b1[0..8, 0..64] writes b2[0..8, 0..64] after 0..1
event e0 = counter 1 "neg#1"
edge r0 r1 counter
worker w0 {
    step t0 signals e0
    load t0 b0 0..512 x3 every 512
    load t0 b0 1536..2048
    load t0 b0 0..64 rows 8 apart 512 x2 every 4096
}
worker w1 {
    step t1 waits e0>=1
}
arena 2048 {
    b1 at 0
}
)";

std::string error_of(std::string_view text) {
    try {
        (void)parse_plan(text);
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

std::string replaced(std::string_view from, std::string_view to) {
    std::string text(kPlan);
    return text.replace(text.find(from), from.size(), to);
}

/// A plan of the size of a 30-layer decode step.
Plan large_plan() {
    Plan plan = parse_plan(kPlan);
    constexpr std::int64_t kWorkers = 132;
    constexpr std::int64_t kTasks = 25'000;
    plan.graph.tasks.clear();
    plan.workers.assign(kWorkers, {});
    for (std::int64_t task = 0; task < kTasks; ++task) {
        const Range rows{task % 500 * 16, task % 500 * 16 + 16};
        plan.graph.tasks.push_back({RegionId(task % 2),
                                    {Range{0, 1}, Range{0, 1}, rows},
                                    {{BufferId(0), {rows, {0, 576}}}, {BufferId(1), {{0, 1}, {0, 576}}}},
                                    {{BufferId(2), {{0, 1}, rows}}},
                                    {{task / 2, task / 2 + 1}, {task / 3, task / 3 + 40}}});
        Worker& worker = plan.workers[static_cast<std::size_t>(task % kWorkers)];
        worker.queue.push_back({TaskId(task), {{EventId(0), 132}, {EventId(0), 264}}, {EventId(0)}});
        for (std::int64_t load = 0; load < 5; ++load) {
            worker.stream.push_back({TaskId(task), BufferId(load % 2), load * 18'432 + task, 18'432});
        }
    }
    return plan;
}

TEST(PlanText, ARunOfLoadsIsOneLine) {
    const Plan plan = parse_plan(replaced("load t0 b0 1536..2048", "load t0 b0 1536..1600"));
    ASSERT_EQ(plan.workers[0].stream.size(), 6U);
    EXPECT_EQ(plan.workers[0].stream[2], (Load{TaskId(0), BufferId(0), 1024, 512}));
    EXPECT_EQ(plan.workers[0].stream[3], (Load{TaskId(0), BufferId(0), 1536, 64}));
    EXPECT_EQ(plan.workers[0].stream[5], (Load{TaskId(0), BufferId(0), 4096, 64, 8, 512}));
}

TEST(PlanText, ReadsAsItIsWritten) {
    const std::string text = replaced("load t0 b0 1536..2048", "load t0 b0 1536..1600");
    EXPECT_EQ(to_text(parse_plan(text)), text);
}

TEST(PlanText, BuffersWithoutAnOffsetAreBoundFromOutside) {
    EXPECT_EQ(parse_plan(kPlan).offsets, (std::vector<std::int64_t>{-1, 0, -1}));
}

TEST(PlanText, APlanWithoutAnArenaIsNotPlaced) {
    EXPECT_TRUE(parse_plan(replaced("arena 2048 {\n    b1 at 0\n}\n", "")).offsets.empty());
}

TEST(PlanText, ErrorsNameThePlace) {
    EXPECT_EQ(error_of(replaced("e0>=1", "e0=1")), "plan text, line 33, column 21: expected '>=', found '='");
    EXPECT_EQ(error_of(replaced("b1 at 0", "b9 at 0")),
              "plan text, line 36, column 5: expected the label of a buffer, found 'b9'");
    EXPECT_EQ(error_of(replaced("x3 every", "x3000 every")),
              "plan text, line 28, column 24: expected an integer from 2 to 256, found '3000'");
    EXPECT_EQ(error_of(replaced("edge r0 r1 counter", "edge r0 r1 mail")),
              "plan text, line 25, column 12: expected a hand-off: same_worker, counter, barrier, words, "
              "found 'mail'");
    EXPECT_EQ(
        error_of(replaced("worker w1", "wurker w1")),
        "plan text, line 32, column 1: expected the next part of a plan: buffer, region, tasks, task, event, "
        "edge, worker, arena, found 'wurker'");
}

RC_GTEST_PROP(PlanText, PlansRoundTrip, ()) {
    const Plan plan = *gen::any(gen::pick_plan);
    RC_ASSERT(parse_plan(to_text(plan)) == plan);
}

TEST(PlanText, DamageIsRefusedOrHarmless) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        expect_survives_damage(std::string(kPlan), seed, parse_plan,
                               [](const Plan& plan) { return to_text(plan); });
    }
}

TEST(PlanText, APlanOfADecodeStepReadsAsItIsWritten) {
    const Plan plan = large_plan();
    const std::string text = to_text(plan);
    EXPECT_GT(text.size(), 5'000'000U);
    EXPECT_EQ(parse_plan(text), plan);
}

}  // namespace
}  // namespace stretto
