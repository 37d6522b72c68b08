#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "support/mutation.h"
#include "support/plan_generators.h"
#include "tile/text.h"

namespace stretto {
namespace {

namespace gen = generators;

constexpr std::string_view kTasks = R"(buffer b0 = input "x" : f32[8, 4]
buffer b1 = arena "y" : f32[8, 4]
region r0 = map [8, 4] "neg#1" {
    store b1 : f32 [8:4, 4:1] = {
        a0 = b0 : f32 [8:4, 4:1]
        x0 = load a0 : f32
        x1 = neg x0 : f32
    }
}
tasks r0 0..2
task t0 = r0 [0..16, 0..0, 0..0, 0..0] reads b0[0..4, 0..4] writes b1[0..4, 0..4]
task t1 = r0 [16..32, 0..0, 0..0, 0..0] reads b0[4..8, 0..4] may b1[0..1, 0..4] writes may b1[4..8, 0..4] after 0..1
)";

TEST(TaskText, ReadsAsItIsWritten) { EXPECT_EQ(to_text(parse_task_graph(kTasks)), kTasks); }

TEST(TaskText, ADataDependentFootprintSaysMay) {
    const TaskGraph graph = parse_task_graph(kTasks);
    EXPECT_FALSE(graph.tasks[0].writes[0].may);
    EXPECT_TRUE(graph.tasks[1].writes[0].may);
    EXPECT_EQ(graph.tasks[1].after, (std::vector<Range>{{0, 1}}));
}

RC_GTEST_PROP(TaskText, TasksRoundTrip, ()) {
    const TaskGraph graph = *gen::any(gen::pick_tasks);
    RC_ASSERT(parse_task_graph(to_text(graph)) == graph);
}

TEST(TaskText, DamageIsRefusedOrHarmless) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        expect_survives_damage(std::string(kTasks), seed, parse_task_graph,
                               [](const TaskGraph& graph) { return to_text(graph); });
    }
}

}  // namespace
}  // namespace stretto
