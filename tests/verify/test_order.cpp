#include <gtest/gtest.h>

#include <random>

#include "verify/order.h"
#include "verify/plans.h"

namespace stretto {
namespace {

/// Which tasks can run if `withheld` never does, by playing the plan: the definition that Order computes faster.
std::vector<bool> runnable_without(const Plan& plan, TaskId withheld) {
    std::vector<bool> done(plan.graph.tasks.size(), false);
    std::vector<std::uint32_t> arrived(plan.events.size(), 0);
    std::vector<std::size_t> next(plan.workers.size(), 0);
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t w = 0; w < plan.workers.size(); ++w) {
            if (next[w] == plan.workers[w].queue.size()) continue;
            const Step& step = plan.workers[w].queue[next[w]];
            bool ready = step.task != withheld;
            for (const Wait& wait : step.waits) ready &= arrived[wait.event.index()] >= wait.target;
            if (!ready) continue;
            for (EventId event : step.signals) ++arrived[event.index()];
            done[step.task.index()] = true;
            ++next[w];
            progress = true;
        }
    }
    return done;
}

/// Random queues, signals and waits, with targets from one to all signals; many of them block.
Plan random_plan(std::mt19937& random) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int workers = 2 + below(3);
    PlanBuilder plan(workers);
    std::vector<TaskId> tasks;
    for (int t = 0; t < 12; ++t) tasks.push_back(plan.task("r" + std::to_string(t), below(workers), {}, {}));
    for (int e = 0; e < 5; ++e) {
        const EventId event = plan.event("e" + std::to_string(e));
        const int signals = 1 + below(4);
        for (int s = 0; s < signals; ++s) plan.signal(tasks[static_cast<std::size_t>(below(9))], event);
        const int waits = 1 + below(3);
        for (int i = 0; i < waits; ++i) {
            plan.wait(tasks[static_cast<std::size_t>(3 + below(9))], event,
                      static_cast<std::uint32_t>(1 + below(signals)));
        }
    }
    return plan.finish();
}

TEST(Order, IsWhatWithholdingATaskShows) {
    std::mt19937 random(1);
    int completed = 0;
    int partial_orders = 0;
    for (int round = 0; round < 3000; ++round) {
        const Plan plan = random_plan(random);
        const verifying::Order order(plan);
        const std::vector<bool> runs = runnable_without(plan, TaskId{});
        completed += order.completes() ? 1 : 0;
        for (std::int64_t a = 0; a < 12; ++a) {
            ASSERT_EQ(order.starts(TaskId(a)), runs[static_cast<std::size_t>(a)]) << "round " << round;
            if (!order.starts(TaskId(a))) continue;
            const std::vector<bool> without = runnable_without(plan, TaskId(a));
            for (std::int64_t b = 0; b < 12; ++b) {
                if (a == b || !order.starts(TaskId(b))) continue;
                const bool expected = !without[static_cast<std::size_t>(b)];
                ASSERT_EQ(order.before(TaskId(a), TaskId(b)), expected)
                    << "round " << round << " tasks " << a << ", " << b;
                partial_orders += expected ? 1 : 0;
            }
        }
    }
    EXPECT_GT(completed, 300);
    EXPECT_GT(partial_orders, 3000);
}

/// Phases of one task a worker; every task of a phase reads all that the phase before wrote.
Plan all_to_all(int workers, int phases) {
    PlanBuilder plan(workers);
    for (int p = 0; p < phases; ++p) {
        plan.buffer("x" + std::to_string(p), workers,
                    p + 1 == phases ? BufferRole::Output : BufferRole::Arena);
    }
    EventId before;
    for (int p = 0; p < phases; ++p) {
        const EventId event = plan.event("phase " + std::to_string(p));
        for (int w = 0; w < workers; ++w) {
            std::vector<Part> reads;
            if (p > 0) reads.push_back({"x" + std::to_string(p - 1), 0, workers});
            const TaskId task =
                plan.task("phase " + std::to_string(p), w, reads, {{"x" + std::to_string(p), w, w + 1}});
            if (p > 0) plan.wait(task, before, static_cast<std::uint32_t>(workers));
            plan.signal(task, event);
        }
        before = event;
    }
    Plan finished = plan.finish();
    for (int p = 0; p < phases; ++p) {
        if (finished.offsets[static_cast<std::size_t>(p)] < 0) continue;
        finished.offsets[static_cast<std::size_t>(p)] = p % 3 * 1024;
    }
    return finished;
}

TEST(Verify, ProvesTwentyFiveThousandTasks) { EXPECT_EQ(faults_of(all_to_all(132, 190)), ""); }

}  // namespace
}  // namespace stretto
