#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "profile/bus_time.h"
#include "profile/names.h"
#include "profile/summary.h"
#include "profile/totals.h"
#include "profile/traces.h"

namespace stretto {
namespace {

constexpr int kLayers = 5;
constexpr int kWidth = 4;
/// Sums of a few hundred times below 100 us, in double.
constexpr double kRounding = 1e-9;

class Profile : public testing::TestWithParam<unsigned> {
protected:
    Machine machine = builtin_machine("h200");
    Plan plan = sample::layered_plan(kLayers, kWidth);
    Trace trace = sample::random_trace(plan, GetParam());
    Simulation simulation = simulate(plan, machine);
};

TEST_P(Profile, HopsAddUpToTheLaunch) {
    const std::vector<Hop> path = critical_path(plan, trace, simulation);
    double measured = 0;
    double simulated = 0;
    for (const Hop& hop : path) {
        for (double part : {hop.wait, hop.stage, hop.compute, hop.publish}) EXPECT_GE(part, 0);
        EXPECT_LE(hop.stalled, hop.compute);
        measured += hop.total();
        simulated += hop.simulated;
    }
    EXPECT_NEAR(measured, trace.total, kRounding);
    EXPECT_NEAR(simulated, simulation.tasks[path.back().task.index()].end, kRounding);
}

TEST_P(Profile, CriticalPathTakesTheLatestTaskOfEachRegion) {
    const std::vector<Hop> path = critical_path(plan, trace, simulation);
    // A task waits for all of the region before it, so each region has one task on the path: the last to publish.
    ASSERT_EQ(path.size(), plan.graph.tasks_of.size());
    for (std::size_t r = 0; r < path.size(); ++r) {
        const Range tasks = plan.graph.tasks_of[r];
        const auto first = trace.tasks.begin() + tasks.begin;
        const auto latest = std::max_element(first, first + tasks.size(), [](const auto& a, const auto& b) {
            return a.published < b.published;
        });
        EXPECT_EQ(path[r].task.value, latest - trace.tasks.begin()) << r;
    }
}

TEST_P(Profile, BusyWorkerDecidesWhereItIsTheLast) {
    // Without hand-offs a launch is as long as its longest queue.
    for (Task& task : plan.graph.tasks) task.after.clear();
    trace = sample::random_trace(plan, GetParam());
    const std::vector<Hop> path = critical_path(plan, trace, simulation);
    ASSERT_EQ(path.size(), plan.workers[path.back().worker].queue.size());
    for (std::size_t i = 0; i < path.size(); ++i) {
        EXPECT_EQ(path[i].task, plan.workers[path.back().worker].queue[i].task);
        EXPECT_FALSE(path[i].handed_over);
    }
}

TEST_P(Profile, AverageWorkerAddsUpToTheLaunch) {
    const MeanWorker mean = mean_worker(plan, trace);
    double sum = mean.idle;
    double tasks = 0;
    for (std::size_t kind = 0; kind < mean.kinds.size(); ++kind) {
        sum += mean.kinds[kind].total();
        tasks += mean.tasks[kind];
    }
    EXPECT_NEAR(sum, trace.total, kRounding);
    EXPECT_NEAR(tasks, 2.0 * kLayers, kRounding);
}

TEST_P(Profile, PhasesHoldEveryTaskAndEveryHopOnce) {
    const std::vector<Hop> path = critical_path(plan, trace, simulation);
    const std::vector<Phase> all = phases(plan, trace, path);
    ASSERT_EQ(all.size(), 2U);
    double sum = 0;
    for (const Phase& phase : all) {
        EXPECT_EQ(phase.tasks, static_cast<std::size_t>(kLayers * kWidth));
        EXPECT_EQ(phase.hops, static_cast<std::size_t>(kLayers));
        sum += phase.sum_hops;
    }
    EXPECT_NEAR(sum, trace.total, kRounding);
}

TEST_P(Profile, LoadsLandAfterTheyAreIssuedAndNotFasterThanTheBus) {
    const auto bus = bus_time(plan, trace, machine);
    ASSERT_TRUE(bus);
    double bytes = 0;
    for (std::size_t w = 0; w < plan.workers.size(); ++w) {
        ASSERT_EQ(bus->landed[w].size(), plan.workers[w].stream.size());
        for (std::size_t i = 0; i < bus->landed[w].size(); ++i) {
            const auto size = static_cast<double>(plan.workers[w].stream[i].bytes());
            bytes += size;
            EXPECT_GE(bus->landed[w][i], trace.loads[w][i] + size / machine.bandwidth - kRounding);
        }
    }
    EXPECT_GE(bus->idle, 0);
    EXPECT_LE(bus->idle, trace.total - bytes / machine.bandwidth + kRounding);
}

TEST_P(Profile, TaskOverTwiceItsPhasesMedianIsAStraggler) {
    for (TaskTimes& task : trace.tasks) task.computed = task.ready + 10;
    TaskTimes& slow = trace.tasks[6];
    slow.computed = slow.ready + 20.1;
    const std::vector<Phase> all = phases(plan, trace, {});
    EXPECT_EQ(all[0].stragglers, std::vector<TaskId>{});
    EXPECT_EQ(all[1].stragglers, std::vector{TaskId(6)});
    EXPECT_EQ(all[1].slowest, slow.computed - slow.ready);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Profile, testing::Range(1U, 9U));

TEST(PhaseNames, StandForTheSamePlaceOfEveryLayer) {
    RegionGraph graph = sample::layered_plan(2, 2).graph.regions;
    graph.regions[3].name = "model.layers.1.up#3";
    graph.regions[3].body = graph.regions[2].body;
    EXPECT_EQ(phase_names(graph), (std::vector<std::string>{"*.up matmul 16x64", "*.act map 16",
                                                            "*.up matmul 16x64", "*.up matmul 16x64 (2)"}));
}

TEST(Summary, HasNoLoadsOfABackendThatTimesNone) {
    const Plan plan = sample::layered_plan(2, 2);
    Trace trace = sample::random_trace(plan, 3);
    trace.loads.assign(2, {});
    EXPECT_FALSE(bus_time(plan, trace, builtin_machine("h200")));
    EXPECT_EQ(summary(plan, trace, builtin_machine("h200")).find("bus"), std::string::npos);
}

TEST(Summary, FitsAPage) {
    const Plan plan = sample::layered_plan(40, 8);
    const std::string page = summary(plan, sample::random_trace(plan, 1), builtin_machine("h200"));
    EXPECT_LE(std::count(page.begin(), page.end(), '\n'), 80) << page;
    EXPECT_EQ(page.find("nan"), std::string::npos) << page;
}

}  // namespace
}  // namespace stretto
