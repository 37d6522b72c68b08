#include <gtest/gtest.h>

#include "base/error.h"
#include "cost/explain.h"
#include "cost/plans.h"
#include "support/machines.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

TEST(Explain, ReportsAPlan) {
    CostPlan cost(2);
    const TaskId a = cost.compute(0, 10);
    const TaskId b = cost.product(1, 2);
    cost.hand_off(a, b);
    EXPECT_EQ(explain(cost.plan, plain_machine()),
              "plan for plain, predicted on plain\n"
              "  2 regions, 2 tasks on 2 workers, 1 events\n"
              "  streamed 400 B, bound 12.8 kB, arena 0 B\n"
              "  ring of 2 slots of 200 B and 0 B of scratch a worker\n"
              "  predicted 413.0 us; memory bus idle 409.0 us (99 %)\n"
              "hand-offs between regions\n"
              "  same worker      0\n"
              "  words            0\n"
              "  counter          1\n"
              "  barrier          0\n"
              "  1 between workers on the critical path\n"
              "copies, made where no view expresses a reshape\n"
              "  none\n"
              "regions\n"
              "   tasks  workers  start us    end us  kind      name\n"
              "       1        1      0.00     10.00  map       r0\n"
              "       1        1     13.00    413.00  matmul    r1\n"
              "critical path, 2 tasks\n"
              "     410.00 us in its tasks\n"
              "       0.00 us before 1 of them: same worker\n"
              "       3.00 us before 1 of them: counter\n"
              "   start us    end us    gap us  task\n"
              "       0.00     10.00      0.00  #0 r0 on worker 0\n"
              "      13.00    413.00      3.00  #1 r1 on worker 1, after a hand-off: counter\n");
}

TEST(Explain, SaysWhatPackedCopiesOfWeightsTake) {
    const std::string text = explain(sample::every_kind(h200_of(1), 1), h200_of(1));
    EXPECT_NE(text.find("  streamed 36.9 kB (as packed copies 37.4 kB), bound "), std::string::npos) << text;
}

TEST(Explain, TellsBarriersOnThePathFromCounters) {
    CostPlan cost(2);
    const TaskId a = cost.compute(0, 10);
    const TaskId b = cost.compute(1, 20);
    cost.hand_off(a, b, HandOff::Barrier);
    const std::string text = explain(cost.plan, plain_machine());
    EXPECT_NE(text.find("       7.00 us before 1 of them: barrier\n"), std::string::npos) << text;
    EXPECT_NE(text.find("on worker 1, after a hand-off: barrier\n"), std::string::npos) << text;
}

TEST(Explain, NamesCopies) {
    CostPlan cost(1);
    cost.compute(0, 16);
    Store& store = std::get<MapRegion>(cost.plan.graph.regions.regions[0].body).stores[0];
    store.expr = Expr{};
    store.expr.load({0, DType::F32, identity_map({16}), {}});
    const std::string text = explain(cost.plan, plain_machine());
    EXPECT_NE(text.find("reshape\n  64 B of r0\n"), std::string::npos) << text;
}

TEST(Explain, NamesPaddedRows) {
    CostPlan cost(1);
    cost.plan.graph.tasks[cost.compute(0, 16).index()].writes = {{BufferId(0), {{0, 4}, {0, 259}}, false}};
    cost.plan.graph.regions.buffers[0] = {"y", DType::F32, {4, 264}, BufferRole::Arena, nullptr};
    const std::string text = explain(cost.plan, plain_machine());
    EXPECT_NE(text.find("may\n  [4, 259] in [4, 264] of y\nregions\n"), std::string::npos) << text;
}

TEST(Explain, ShowsTheChainBetweenTwoTasks) {
    CostPlan cost(2);
    const TaskId a = cost.compute(0, 1);
    const TaskId b = cost.compute(0, 1);
    const TaskId c = cost.compute(1, 1);
    cost.hand_off(b, c);
    EXPECT_EQ(explain_tasks(cost.plan, c, a),
              "#2 r2 on worker 1, step 0\n"
              "#0 r0 on worker 0, step 0\n"
              "#0 comes before #2:\n"
              "  queue order -> #1 r1 on worker 0, step 1\n"
              "  event #0 'e0' -> #2 r2 on worker 1, step 0\n");
}

TEST(Explain, SaysWhereNothingOrdersTwoTasks) {
    CostPlan cost(2);
    const TaskId a = cost.compute(0, 1);
    const TaskId b = cost.compute(1, 1);
    EXPECT_EQ(explain_tasks(cost.plan, a, b),
              "#0 r0 on worker 0, step 0\n"
              "#1 r1 on worker 1, step 0\n"
              "no queue order and no hand-off orders them\n");
}

TEST(Explain, RefusesATaskNumberThatThePlanDoesNotHave) {
    CostPlan cost(1);
    const TaskId a = cost.compute(0, 1);
    EXPECT_THROW((void)explain_tasks(cost.plan, a, TaskId(9)), UserError);
}

}  // namespace
}  // namespace stretto
