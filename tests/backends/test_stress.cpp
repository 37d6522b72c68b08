#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <regex>

#include "backends/backends.h"
#include "backends/cases.h"
#include "backends/cpu/cpu_executor.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/executor.h"
#include "verify/verify.h"

namespace stretto {
namespace {

constexpr std::int64_t kWidth = 256;  ///< elements of one task

/// `length` regions of one task for each worker. Each adds one to what the task of the opposite worker wrote, the first to
/// a state and the last back to it. `length` is even, so every element comes back to its place.
RegionGraph relay(std::int64_t length, std::int64_t workers) {
    CaseBuilder build;
    const Shape shape{workers, kWidth};
    const BufferId state = build.buffer(BufferRole::State, DType::F32, shape);
    BufferId previous = state;
    for (std::int64_t i = 0; i < length; ++i) {
        const bool last = i + 1 == length;
        const BufferId next = last ? state : build.buffer(BufferRole::Arena, DType::F32, shape);
        Store store{build.whole(next), {}, {}};
        const IndexMap opposite{{{atom(workers, -kWidth)}, {atom(kWidth, 1)}}, (workers - 1) * kWidth};
        const std::int32_t value = store.expr.load(build.through(previous, opposite));
        store.expr.apply(Op::Add, {value, store.expr.constant(1, DType::F32)});
        build.region(MapRegion{shape, {std::move(store)}});
        previous = next;
    }
    return build.finish();
}

struct Way {
    const char* name;
    HandOff kind;
    bool packed = false;
};

constexpr Way kWords{"Words", HandOff::Words};
constexpr Way kPackedWords{"PackedWords", HandOff::Words, true};
constexpr Way kCounters{"Counters", HandOff::Counter};
constexpr Way kBarriers{"Barriers", HandOff::Barrier};

Machine machine_for(const Way& way, Machine machine, std::int32_t workers) {
    machine.workers = workers;
    if (way.packed) return packed(machine);
    machine.word_us = way.kind == HandOff::Words ? 0.001 : 1000;
    machine.word_byte_us = 0;
    machine.barrier_us = way.kind == HandOff::Barrier ? 0 : 1000;
    return machine;
}

void expect_arena_edges(const Plan& plan, const Way& way) {
    ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].message;
    std::int64_t edges = 0;
    for (const Edge& edge : plan.edges) {
        if (edge.to.value == edge.from.value + 1 && edge.kind == way.kind) ++edges;
    }
    for (const Buffer& buffer : plan.graph.regions.buffers) {
        EXPECT_EQ(buffer.packed, way.packed && buffer.role == BufferRole::Arena) << buffer.name;
    }
    EXPECT_EQ(edges, static_cast<std::int64_t>(plan.graph.regions.regions.size()) - 1);
}

std::vector<float> first_state(std::int64_t workers) {
    std::vector<float> state(static_cast<std::size_t>(workers * kWidth));
    std::iota(state.begin(), state.end(), 0.0F);
    return state;
}

/// Elements that are not what `steps` additions make of the first state.
std::int64_t count_wrong(const std::vector<float>& state, std::int64_t steps) {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < state.size(); ++i) {
        if (state[i] != static_cast<float>(i) + static_cast<float>(steps)) ++wrong;
    }
    return wrong;
}

class Stress : public testing::TestWithParam<Way> {};

TEST_P(Stress, ThreadsWithRandomPausesHandOverEveryElement) {
    constexpr std::int64_t kLength = 8;
    constexpr std::int32_t kWorkers = 5;
    const Plan plan = planned(relay(kLength, kWorkers), machine_for(GetParam(), cpu_machine(1), kWorkers));
    expect_arena_edges(plan, GetParam());
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        CpuOptions options;
        options.delay_seed = seed;
        options.max_delay = std::chrono::microseconds(50);
        std::vector<float> state = first_state(kWorkers);
        Bindings bindings(plan.graph.regions.buffers.size(), nullptr);
        bindings[0] = state.data();
        const auto executor = make_cpu_executor(plan, options);
        for (int launch = 0; launch < 3; ++launch)
            executor->run(bindings, nullptr, {.count = 20, .stop = {}});
        EXPECT_EQ(count_wrong(state, 3 * 20 * kLength), 0) << "seed " << seed;
    }
}

/// The same on a GPU: many iterations with every address used again in each, and tasks that pause at random.
class DeviceStress {
public:
    static constexpr std::int64_t kLength = 64;
    static constexpr std::uint32_t kIterations = 1000;
    static constexpr int kLaunches = 5;

    explicit DeviceStress(const Way& way) : machine_(machine_for(way, builtin_machine("h200"), 0)) {
        machine_.workers = builtin_machine("h200").workers;
        plan = planned(relay(kLength, machine_.workers), machine_);
    }

    /// Runs the plan and returns the number of wrong elements.
    [[nodiscard]] std::int64_t run(const std::function<void(std::string&)>& change_source = {}) const {
        Emission emission = emit(plan, machine_);
        pause_at_random(emission.source);
        if (change_source) change_source(emission.source);
        const auto executor = make_cuda_executor(plan, emission);
        const std::vector<float> first = first_state(machine_.workers);
        const cuda::DeviceMemory memory(std::as_bytes(std::span(first)));
        cuda::finish_copies();
        Bindings bindings(plan.graph.regions.buffers.size(), nullptr);
        bindings[0] = memory.as<void>();
        std::int64_t wrong = 0;
        for (int round = 0; round < rounds(); ++round) {
            cuda::check(cuda::driver().copy_to_device(memory.address(), first.data(), memory.size()),
                        "cuMemcpyHtoD");
            for (int launch = 0; launch < kLaunches; ++launch) {
                executor->run(bindings, nullptr, {.count = kIterations, .stop = {}});
            }
            executor->synchronize();
            std::vector<float> state(first.size());
            cuda::check(cuda::driver().copy_to_host(state.data(), memory.address(), memory.size()),
                        "cuMemcpyDtoH");
            wrong += count_wrong(state, std::int64_t{kLaunches} * kIterations * kLength);
        }
        return wrong;
    }

    Plan plan;

private:
    /// STRETTO_STRESS_ROUNDS asks for a longer run: 200 rounds are a million iterations.
    static int rounds() {
        const char* asked = std::getenv("STRETTO_STRESS_ROUNDS");
        return asked == nullptr ? 1 : std::atoi(asked);
    }

    static void pause_at_random(std::string& source) {
        const std::string start = "store(I32 at, const Early& early) const {\n";
        const std::string pause =
            "        if ((static_cast<U32>(clock()) >> 5) % 16 == 0) __nanosleep(1000);\n";
        for (std::size_t at = source.find(start); at != std::string::npos; at = source.find(start, at)) {
            at += start.size();
            source.insert(at, pause);
        }
    }

    Machine machine_;
};

TEST_P(Stress, TheDeviceHandsOverEveryElementMillionsOfTimes) {
    if (!cuda_available()) GTEST_SKIP() << "no CUDA device";
    const DeviceStress stress(GetParam());
    expect_arena_edges(stress.plan, GetParam());
    EXPECT_EQ(stress.run(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Stress, testing::Values(kCounters, kWords, kPackedWords, kBarriers),
                         [](const auto& way) { return way.param.name; });

// Negative controls: without the hand-off the same test fails, so it can see one that does not work.

TEST(StressControl, SeesWordsWhoseTagIsNotLookedAt) {
    if (!cuda_available()) GTEST_SKIP() << "no CUDA device";
    for (const Way& way : {kWords, kPackedWords}) {
        const DeviceStress stress(way);
        EXPECT_GT(stress.run([](std::string& source) {
            const std::regex checked(R"(return e\d+\.ready\(tag\);)");
            ASSERT_TRUE(std::regex_search(source, checked)) << source;
            source = std::regex_replace(source, checked, "return true;");
        }),
                  0)
            << way.name;
    }
}

TEST(StressControl, SeesCountersAndBarriersThatNobodyWaitsFor) {
    if (!cuda_available()) GTEST_SKIP() << "no CUDA device";
    for (const Way& way : {kCounters, kBarriers}) {
        DeviceStress stress(way);
        for (Worker& worker : stress.plan.workers) {
            for (Step& step : worker.queue) step.waits.clear();
        }
        EXPECT_GT(stress.run(), 0);
    }
}

}  // namespace
}  // namespace stretto
