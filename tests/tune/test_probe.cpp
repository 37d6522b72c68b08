#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "cost/simulate.h"
#include "tune/launch_clock.h"
#include "tune/probe.h"
#include "tune/probe_programs.h"

namespace stretto {
namespace {

Machine small_machine() {
    Machine machine = builtin_machine("h200");
    machine.bandwidth *= 6.0 / machine.workers;
    machine.workers = 6;
    return machine;
}

constexpr ProbeSizes kSmall{.short_chain = 3,
                            .long_chain = 9,
                            .products = 4,
                            .panels = 6,
                            .wide_products = 2,
                            .wide_panels = 24,
                            .rounds = 8,
                            .operations = 64,
                            .square = 512};

/// A device that takes exactly as long as the simulator says for `truth`. It has caches: the product on tensor cores, which
/// is one region, never waits for memory.
Clock clock_of(const Machine& truth) {
    return [truth](const Compiled& more, const Compiled& less, const Machine&) {
        Machine device = truth;
        if (more.plan.graph.regions.regions.size() == 1) device.bandwidth = 1e300;
        return simulate(more.plan, device).total - simulate(less.plan, device).total;
    };
}

TEST(Probe, FindsEveryNumberOfAMachineThatBehavesAsSimulated) {
    const Machine base = small_machine();
    Machine truth = base;
    truth.bandwidth *= 0.4;
    truth.flops *= 1.7;
    truth.tensor_flops *= 0.6;
    truth.task_us = 0.21;
    truth.load_latency_us = 0.53;
    truth.counter_us = 2.1;
    truth.counter_wait_us = 0.07;
    truth.signal_us = 0.22;
    truth.barrier_us = 2.9;
    truth.word_us = 1.3;
    truth.word_byte_us = 4e-5;
    const ProbeResult result = probe(base, kSmall, clock_of(truth));
    std::set<std::string_view> fields;
    for (const Finding& finding : result.findings) {
        ASSERT_TRUE(finding.value) << finding.quantity.field << ": " << finding.what;
        const double expected = truth.*finding.quantity.member;
        // Each fit is as precise as 0.1 %, and relies on a few before it.
        EXPECT_NEAR(*finding.value, expected, expected * 0.02)
            << finding.quantity.field << ": " << finding.what;
        fields.insert(finding.quantity.field);
    }
    EXPECT_EQ(fields.size(), 11U);
}

TEST(Probe, KeepsTheBasesNumberWhereNoValueExplainsTheTime) {
    const Machine base = small_machine();
    const ProbeResult result =
        probe(base, kSmall, [](const Compiled&, const Compiled&, const Machine&) { return -1.0; });
    EXPECT_EQ(to_json(result.machine), to_json(base));
    EXPECT_NE(probe_report(base, result).find("less than all else takes: the base's stays"),
              std::string::npos);
}

TEST(Probe, MakesThePlannerChooseTheHandOffThatItMeasures) {
    for (const Probe& each : probes(small_machine(), kSmall)) {
        const std::string_view field = each.quantity.field;
        if (field != "counter_us" && field != "barrier_us" && field != "word_us") continue;
        const Plan plan = compile_regions(each.more, each.options).plan;
        ASSERT_FALSE(plan.edges.empty());
        for (const Edge& edge : plan.edges) {
            const HandOff kind = field == "counter_us"   ? HandOff::Counter
                                 : field == "barrier_us" ? HandOff::Barrier
                                                         : HandOff::Words;
            EXPECT_EQ(edge.kind, kind) << field << ": " << each.what;
        }
    }
}

TEST(Probe, CountsSignalsWhereTasksSignalSeveralCounters) {
    const auto signals = [](const RegionGraph& regions, const CompileOptions& options) {
        std::size_t most = 0;
        for (const Worker& worker : compile_regions(regions, options).plan.workers) {
            for (const Step& step : worker.queue) most = std::max(most, step.signals.size());
        }
        return most;
    };
    for (const Probe& each : probes(small_machine(), kSmall)) {
        if (each.quantity.field != "signal_us") continue;
        EXPECT_EQ(signals(each.more, each.options), 3U);
        EXPECT_EQ(signals(each.less, each.options), 1U);
    }
}

TEST(Probe, ComparesPlansThatStreamTheSameBytesWhereItMeasuresHandOffs) {
    for (const Probe& each : probes(small_machine(), kSmall)) {
        if (each.what != "chained products, busy bus") continue;
        const auto streamed = [&](const RegionGraph& regions) {
            std::int64_t bytes = 0;
            for (const Worker& worker : compile_regions(regions, each.options).plan.workers) {
                for (const Load& load : worker.stream) bytes += load.bytes();
            }
            return bytes;
        };
        EXPECT_GT(streamed(each.more), 0);
        EXPECT_EQ(streamed(each.more), streamed(each.less));
    }
}

TEST(Probe, WritesAFileThatReadsBack) {
    const Machine base = small_machine();
    Machine truth = base;
    truth.counter_us = 1.7;
    const ProbeResult result = probe(base, kSmall, clock_of(truth));
    EXPECT_EQ(to_json(parse_machine(to_json(result.machine))), to_json(result.machine));
}

TEST(Probe, SaysForEveryNumberItsUnitAndWhereItComesFrom) {
    const Machine base = small_machine();
    const std::string report = probe_report(base, probe(base, kSmall, clock_of(base)));
    for (const char* expected : {"operations/us, a worker", "us/byte", "a longer relay, quiet bus",
                                 "chained products, busy bus", "as in the base"}) {
        EXPECT_NE(report.find(expected), std::string::npos) << expected << "\n" << report;
    }
}

TEST(Probe, NeedsTwoWorkers) {
    Machine machine = small_machine();
    machine.workers = 1;
    try {
        static_cast<void>(probes(machine, kSmall));
        FAIL();
    } catch (const UserError& error) {
        EXPECT_STREQ(error.what(),
                     "machine 'h200' has one worker: a probe needs two, which hand something over");
    }
}

TEST(LaunchClock, TimesThreads) {
    Machine machine = builtin_machine("cpu");
    machine.workers = 2;
    const CompileOptions options{machine, Numerics::Fused};
    // Tens of millions of operations take many times as long as any launch is late.
    const Compiled more = compile_regions(separate_maps(machine, 1, 32, 2048), options);
    const Compiled less = compile_regions(separate_maps(machine, 1, 1, 0), options);
    const Clock clock = launch_clock(Backend::Cpu, {.launch_us = 500, .rounds = 3});
    EXPECT_GT(clock(more, less, machine), 0);
}

TEST(LaunchClock, ProbesNoGpuWithThreads) {
    EXPECT_THROW(static_cast<void>(machine_here(builtin_machine("h200"), Backend::Cpu)), UserError);
}

}  // namespace
}  // namespace stretto
