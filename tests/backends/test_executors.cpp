#include <gtest/gtest.h>

#include "backends/backends.h"
#include "backends/cases.h"
#include "backends/cpu/cpu_executor.h"
#include "backends/reference/reference_executor.h"
#include "base/error.h"
#include "verify/verify.h"

namespace stretto {
namespace {

/// Several regions on several workers with counters between them.
Plan chained_plan(std::int32_t workers) { return planned(chain_cases()[0].graph, cpu_machine(workers)); }

/// The message of the RunError that `body` throws.
template <class Body>
std::string run_error(Body&& body) {
    try {
        body();
    } catch (const RunError& error) {
        return error.what();
    }
    return "no error";
}

/// Makes the first wait of the plan ask for one signal more than there are.
const Wait& spoil_a_wait(Plan& plan) {
    for (Worker& worker : plan.workers) {
        for (Step& step : worker.queue) {
            if (step.waits.empty()) continue;
            step.waits[0].target = plan.events[step.waits[0].event.index()].signals + 1;
            return step.waits[0];
        }
    }
    throw InternalError("the plan has no wait");
}

std::vector<std::byte> result_of(Executor& executor, const RegionGraph& graph, unsigned seed = 5) {
    BufferMemory memory(graph, seed);
    executor.run(memory.bindings(), nullptr);
    std::vector<std::byte> all;
    for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
        if (graph.buffers[b].role != BufferRole::Output) continue;
        const auto& bytes = memory.bytes(BufferId(static_cast<std::int64_t>(b)));
        all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
}

TEST(CpuExecutor, TracesEveryTaskInOrder) {
    const Plan plan = chained_plan(3);
    BufferMemory memory(plan.graph.regions, 1);
    const auto executor = make_cpu_executor(plan, {.traced = true});
    for (int launch = 0; launch < 2; ++launch) {
        executor->run(memory.bindings(), nullptr);
        const Trace trace = executor->trace();
        ASSERT_EQ(trace.tasks.size(), plan.graph.tasks.size());
        for (const Worker& worker : plan.workers) {
            double before = 0;
            for (const Step& step : worker.queue) {
                const TaskTimes& times = trace.tasks[step.task.index()];
                EXPECT_LE(before, times.begun);
                EXPECT_LE(times.begun, times.ready);
                EXPECT_LE(times.ready, times.staged);
                EXPECT_LT(times.staged, times.computed);
                EXPECT_LE(times.computed, times.published);
                EXPECT_LE(times.published, trace.total);
                before = times.published;
            }
        }
    }
}

TEST(Executors, KeepNoTimesUnlessTraced) {
    const Plan plan = chained_plan(1);
    EXPECT_THROW(static_cast<void>(make_cpu_executor(plan)->trace()), UserError);
    EXPECT_THROW(static_cast<void>(make_reference_executor(plan)->trace()), UserError);
}

TEST(ReferenceExecutor, NamesWorkersAndEventsOfAPlanThatIsStuck) {
    Plan plan = chained_plan(3);
    const std::string event = plan.events[spoil_a_wait(plan).event.index()].name;
    BufferMemory memory(plan.graph.regions, 1);
    const auto executor = make_reference_executor(plan);
    const std::string message = run_error([&] { executor->run(memory.bindings(), nullptr); });
    EXPECT_NE(message.find("the plan is stuck"), std::string::npos) << message;
    EXPECT_NE(message.find("waits for event"), std::string::npos) << message;
    EXPECT_NE(message.find(event), std::string::npos) << message;
}

TEST(ReferenceExecutor, CatchesAReadOfBytesThatNobodyWrote) {
    Plan plan = chained_plan(1);
    std::vector<Step>& queue = plan.workers[0].queue;
    ASSERT_EQ(queue.size(), 2U);
    std::swap(queue[0], queue[1]);
    for (Step& step : queue) step.waits.clear();
    BufferMemory memory(plan.graph.regions, 1);
    const auto executor = make_reference_executor(plan);
    const std::string message = run_error([&] { executor->run(memory.bindings(), nullptr); });
    EXPECT_NE(message.find("task #1 region#1 on worker 0 reads bytes"), std::string::npos) << message;
    EXPECT_NE(message.find("which no task of this launch wrote before"), std::string::npos) << message;
}

TEST(ReferenceExecutor, CatchesAStoreOutsideTheTasksBoxes) {
    Plan plan = chained_plan(1);
    for (Footprint& footprint : plan.graph.tasks[0].writes) footprint.box.back().end -= 1;
    BufferMemory memory(plan.graph.regions, 1);
    const auto executor = make_reference_executor(plan);
    const std::string message = run_error([&] { executor->run(memory.bindings(), nullptr); });
    EXPECT_NE(message.find("task #0 region#0 on worker 0 writes bytes"), std::string::npos) << message;
    EXPECT_NE(message.find("which its boxes do not cover"), std::string::npos) << message;
}

TEST(ReferenceExecutor, NamesBuffersThatAreNotBound) {
    const Plan plan = chained_plan(1);
    const auto executor = make_reference_executor(plan);
    const std::string message = run_error([&] { executor->run({}, nullptr); });
    EXPECT_NE(message.find("no memory is bound to buffers 'b0'"), std::string::npos) << message;
}

TEST(CpuExecutor, NamesWorkerTaskAndEventOfAWaitThatTimesOutAndRunsAgainAfterIt) {
    Plan plan = chained_plan(3);
    Plan spoiled = plan;
    const std::string event = spoiled.events[spoil_a_wait(spoiled).event.index()].name;
    CpuOptions options;
    options.time_out = std::chrono::milliseconds(50);
    BufferMemory memory(plan.graph.regions, 1);
    const auto executor = make_cpu_executor(spoiled, options);
    const auto run = [&] { executor->run(memory.bindings(), nullptr); };
    const std::string message = run_error(run);
    EXPECT_NE(message.find("waited 50 ms with task"), std::string::npos) << message;
    EXPECT_NE(message.find(event), std::string::npos) << message;
    EXPECT_NE(run_error(run).find("waited 50 ms with task"), std::string::npos);
}

TEST(CpuExecutor, RunsManyMoreWorkersThanProcessors) {
    const RegionGraph graph = chain_cases()[2].graph;
    const auto few = make_cpu_executor(planned(graph, cpu_machine(1)));
    const auto many = make_cpu_executor(planned(graph, cpu_machine(132)));
    EXPECT_EQ(result_of(*few, graph), result_of(*many, graph));
}

TEST(CpuExecutor, GivesTheSameBitsWhateverTheTiming) {
    const RegionGraph graph = chain_cases()[1].graph;
    const Plan plan = planned(graph, cpu_machine(4));
    const auto calm = make_cpu_executor(plan);
    const std::vector<std::byte> expected = result_of(*calm, graph);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        CpuOptions options;
        options.delay_seed = seed;
        options.max_delay = std::chrono::microseconds(300);
        const auto delayed = make_cpu_executor(plan, options);
        for (int launch = 0; launch < 3; ++launch)
            EXPECT_EQ(result_of(*delayed, graph), expected) << "seed " << seed;
    }
}

TEST(CpuExecutor, GivesTheBitsOfTheReference) {
    for (const Case& test : all_cases()) {
        const Plan plan = planned(test.graph, cpu_machine(3));
        const auto cpu = make_cpu_executor(plan);
        const auto reference = make_reference_executor(plan, {Order::Random, 4});
        EXPECT_EQ(result_of(*cpu, test.graph), result_of(*reference, test.graph)) << test.name;
    }
}

TEST(CpuExecutor, NamesTheBufferOfAWordThatDoesNotComeAndRunsAgainAfterIt) {
    Plan plan = planned(chain_cases()[0].graph, word_machine(3));
    // The first writer keeps one word back.
    plan.graph.tasks[0].writes[0].box.back().end -= 1;
    CpuOptions options;
    options.time_out = std::chrono::milliseconds(50);
    BufferMemory memory(plan.graph.regions, 1);
    const auto executor = make_cpu_executor(plan, options);
    const auto run = [&] { executor->run(memory.bindings(), nullptr); };
    for (int launch = 0; launch < 2; ++launch) {
        const std::string message = run_error(run);
        EXPECT_NE(message.find("for a word of buffer 1 'b1'"), std::string::npos) << message;
    }
}

class EachForm : public testing::TestWithParam<bool> {};

TEST_P(EachForm, WordsOfTheLaunchBeforeAreNotTaken) {
    const bool is_packed = GetParam();
    const RegionGraph graph = chain_cases()[1].graph;
    const Plan plan = planned(graph, is_packed ? packed(cpu_machine(5)) : word_machine(5));
    const auto in_form = [&](const Buffer& buffer) { return buffer.tagged && buffer.packed == is_packed; };
    const auto& buffers = plan.graph.regions.buffers;
    ASSERT_TRUE(std::any_of(buffers.begin(), buffers.end(), in_form));
    const auto reference = make_reference_executor(plan);
    CpuOptions options;
    options.delay_seed = 3;
    options.max_delay = std::chrono::microseconds(300);
    const auto cpu = make_cpu_executor(plan, options);
    for (unsigned launch = 0; launch < 20; ++launch) {
        EXPECT_EQ(result_of(*cpu, graph, launch), result_of(*reference, graph, launch))
            << "launch " << launch;
    }
}

INSTANTIATE_TEST_SUITE_P(All, EachForm, testing::Bool(),
                         [](const auto& form) { return form.param ? "Packed" : "Whole"; });

/// A plan for a machine on which one kind of hand-off is by far the cheapest.
Plan plan_with(HandOff kind, const RegionGraph& graph) {
    Machine machine = cpu_machine(kind == HandOff::SameWorker ? 1 : 4);
    machine.counter_us = kind == HandOff::Barrier ? 10 : 0.01;
    machine.barrier_us = kind == HandOff::Barrier ? 0.01 : 1000;
    if (kind == HandOff::Words) return planned(graph, word_machine(4));
    return planned(graph, machine);
}

class EachHandOff : public testing::TestWithParam<HandOff> {};

TEST_P(EachHandOff, CarriesTheSameResultOnTheReferenceAndOnThreads) {
    const RegionGraph graph = chain_cases()[1].graph;
    const Plan plan = plan_with(GetParam(), graph);
    EXPECT_TRUE(verify(plan).empty());
    EXPECT_FALSE(plan.edges.empty());
    for (const Edge& edge : plan.edges) EXPECT_EQ(edge.kind, GetParam());
    const auto one = make_reference_executor(planned(graph, cpu_machine(1)));
    const std::vector<std::byte> expected = result_of(*one, graph);
    const auto reference = make_reference_executor(plan, {Order::Starve, 1});
    const auto cpu = make_cpu_executor(plan);
    EXPECT_EQ(result_of(*reference, graph), expected);
    EXPECT_EQ(result_of(*cpu, graph), expected);
}

INSTANTIATE_TEST_SUITE_P(All, EachHandOff,
                         testing::Values(HandOff::SameWorker, HandOff::Counter, HandOff::Barrier,
                                         HandOff::Words));

}  // namespace
}  // namespace stretto
