#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "abi/abi.h"
#include "backends/cpu/cpu_executor.h"
#include "backends/reference/reference_executor.h"
#include "backends/runs.h"
#include "base/error.h"
#include "verify/verify.h"

namespace stretto {
namespace {

/// Everything that a caller sees after `launches` launches of so many iterations.
std::vector<std::vector<std::byte>> results_of(const Case& test, const Backend& backend, int launches,
                                               std::uint32_t iterations) {
    BufferMemory memory(test.graph, 23);
    if (test.prepare) test.prepare(memory);
    backend.repeat(planned(test.graph, backend.machine), memory, launches, {iterations, {}, nullptr});
    std::vector<std::vector<std::byte>> results;
    for (std::size_t b = 0; b < test.graph.buffers.size(); ++b) {
        const BufferRole role = test.graph.buffers[b].role;
        if (role != BufferRole::Output && role != BufferRole::State) continue;
        results.push_back(memory.bytes(BufferId(static_cast<std::int64_t>(b))));
    }
    return results;
}

class EachCase : public testing::TestWithParam<Run> {};

TEST_P(EachCase, IterationsOfOneLaunchGiveTheBitsOfAsManyLaunches) {
    const auto& [test, backend] = GetParam();
    EXPECT_EQ(results_of(test, backend, 1, 3), results_of(test, backend, 3, 1));
    EXPECT_EQ(results_of(test, backend, 2, 2), results_of(test, backend, 4, 1));
}

INSTANTIATE_TEST_SUITE_P(All, EachCase, testing::ValuesIn(runs_of(all_cases(), available_backends())),
                         run_name);

constexpr std::int64_t kWidth = 500;

/// Adds one to every element of a state; another state says whether element kWidth - 1 has reached `limit`.
struct Counting {
    RegionGraph graph;
    BufferId counts;
    BufferId stop;
};

Counting counting_to(double limit) {
    CaseBuilder build;
    const BufferId counts = build.buffer(BufferRole::State, DType::F32, {kWidth});
    const BufferId stop = build.buffer(BufferRole::State, DType::Bool, {1});
    Store step{build.whole(counts), {}, {}};
    const std::int32_t before = step.expr.load(build.whole(counts));
    step.expr.apply(Op::Add, {before, step.expr.constant(1, DType::F32)});
    build.region(MapRegion{{kWidth}, {std::move(step)}});
    Store reached{build.whole(stop), {}, {}};
    const std::int32_t last = reached.expr.load(build.through(counts, {{{atom(1, 0)}}, kWidth - 1}));
    reached.expr.apply(Op::Le, DType::Bool, {reached.expr.constant(limit, DType::F32), last});
    build.region(MapRegion{{1}, {std::move(reached)}});
    return {build.finish(), counts, stop};
}

Elements counts_from_zero_to(double last) { return Elements(kWidth, last); }

class Stopping : public testing::TestWithParam<Backend> {};

TEST_P(Stopping, AStateThatTheProgramSetsEndsTheLaunch) {
    const Counting program = counting_to(5);
    BufferMemory memory(program.graph, 1);
    memory.set(program.counts, counts_from_zero_to(0));
    GetParam().repeat(planned(program.graph, GetParam().machine), memory, 1, {100, program.stop, nullptr});
    EXPECT_EQ(memory.elements(program.counts), counts_from_zero_to(5));
}

TEST_P(Stopping, ALaunchThatNothingStopsRunsAllIterationsAndTheNextGoesOn) {
    const Counting program = counting_to(1000);
    BufferMemory memory(program.graph, 1);
    memory.set(program.counts, counts_from_zero_to(0));
    GetParam().repeat(planned(program.graph, GetParam().machine), memory, 3, {7, program.stop, nullptr});
    EXPECT_EQ(memory.elements(program.counts), counts_from_zero_to(21));
}

TEST_P(Stopping, ALaunchAfterAnEarlyEndStartsFromWhereThatEnded) {
    const Counting program = counting_to(4);
    BufferMemory memory(program.graph, 1);
    memory.set(program.counts, counts_from_zero_to(0));
    // The first launch ends after iteration 4; each later one finds the limit reached after its first.
    GetParam().repeat(planned(program.graph, GetParam().machine), memory, 3, {9, program.stop, nullptr});
    EXPECT_EQ(memory.elements(program.counts), counts_from_zero_to(6));
}

INSTANTIATE_TEST_SUITE_P(All, Stopping, testing::ValuesIn(available_backends()),
                         [](const auto& instance) { return instance.param.name; });

/// The backends whose progress word is ordinary memory.
std::vector<std::unique_ptr<Executor>> host_executors(const RegionGraph& graph) {
    std::vector<std::unique_ptr<Executor>> executors;
    executors.push_back(make_reference_executor(planned(graph, cpu_machine(2))));
    executors.push_back(make_cpu_executor(planned(graph, cpu_machine(4))));
    return executors;
}

TEST(Progress, CountsIterationsAndMarksTheLast) {
    const Counting program = counting_to(5);
    for (const auto& executor : host_executors(program.graph)) {
        BufferMemory memory(program.graph, 1);
        memory.set(program.counts, counts_from_zero_to(0));
        std::uint32_t progress = 0;
        executor->run(memory.bindings(), nullptr, {3, program.stop, &progress});
        EXPECT_EQ(progress, 3 | abi::kEnded);
        executor->run(memory.bindings(), nullptr, {3, program.stop, &progress});
        EXPECT_EQ(progress, 2 | abi::kEnded);
    }
}

TEST(Granted, ALaunchEndsWhereTheHostGrantsNoMore) {
    const Counting program = counting_to(1000);
    for (const auto& executor : host_executors(program.graph)) {
        BufferMemory memory(program.graph, 1);
        memory.set(program.counts, counts_from_zero_to(0));
        std::uint32_t progress = 0;
        std::uint32_t granted = 4;
        executor->run(memory.bindings(), nullptr, {100, {}, &progress, &granted});
        EXPECT_EQ(progress, 4 | abi::kEnded);
        EXPECT_EQ(memory.elements(program.counts), counts_from_zero_to(4));
        granted = 0;  // the first one runs all the same
        executor->run(memory.bindings(), nullptr, {100, program.stop, &progress, &granted});
        EXPECT_EQ(progress, 1 | abi::kEnded);
        granted = 100;
        executor->run(memory.bindings(), nullptr, {3, {}, &progress, &granted});
        EXPECT_EQ(progress, 3 | abi::kEnded);
        EXPECT_EQ(memory.elements(program.counts), counts_from_zero_to(8));
    }
}

TEST(Granted, TheHostMayChangeItWhileTheLaunchRuns) {
    const Counting program = counting_to(1'000'000);
    for (const auto& executor : host_executors(program.graph)) {
        BufferMemory memory(program.graph, 1);
        memory.set(program.counts, counts_from_zero_to(0));
        std::uint32_t progress = 0;
        std::uint32_t granted = 20;
        std::thread host([&] {
            std::uint32_t seen = 0;
            while ((seen & abi::kEnded) == 0) {
                std::atomic_ref(granted).store(seen < 100 ? seen + 20 : 0);
                std::this_thread::yield();
                seen = std::atomic_ref(progress).load();
            }
        });
        executor->run(memory.bindings(), nullptr, {1'000'000, {}, &progress, &granted});
        host.join();
        const std::uint32_t done = progress & ~abi::kEnded;
        EXPECT_GE(done, 20U);
        EXPECT_EQ(memory.elements(program.counts), counts_from_zero_to(done));
    }
}

TEST(Iterations, OnlyAFlagThatOneTaskWritesCanStop) {
    const Counting program = counting_to(5);
    for (const auto& executor : host_executors(program.graph)) {
        BufferMemory memory(program.graph, 1);
        EXPECT_THROW(executor->run(memory.bindings(), nullptr, {3, program.counts, nullptr}), UserError);
    }
}

TEST(Iterations, ALaunchHasAtLeastOne) {
    const Counting program = counting_to(5);
    for (const auto& executor : host_executors(program.graph)) {
        BufferMemory memory(program.graph, 1);
        EXPECT_THROW(executor->run(memory.bindings(), nullptr, {0, {}, nullptr}), UserError);
    }
}

TEST(Iterations, ThreadsMeetBetweenThemWhateverTheTiming) {
    const RegionGraph graph = chain_cases()[1].graph;
    const Plan plan = planned(graph, cpu_machine(4));
    BufferMemory expected(graph, 5);
    make_reference_executor(plan)->run(expected.bindings(), nullptr, {3, {}, nullptr});
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        CpuOptions options;
        options.delay_seed = seed;
        options.max_delay = std::chrono::microseconds(300);
        BufferMemory memory(graph, 5);
        make_cpu_executor(plan, options)->run(memory.bindings(), nullptr, {3, {}, nullptr});
        for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
            if (graph.buffers[b].role != BufferRole::Output) continue;
            const BufferId output(static_cast<std::int64_t>(b));
            EXPECT_EQ(memory.bytes(output), expected.bytes(output)) << "seed " << seed;
        }
    }
}

}  // namespace
}  // namespace stretto
