#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cuda/device_memory.h"
#include "backends/cuda/executor.h"
#include "base/error.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

constexpr std::int64_t kCount = 1000;

Machine machine() { return builtin_machine("h200"); }

std::vector<float> random_floats(unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<float> out(kCount);
    for (float& x : out) x = any(engine);
    return out;
}

cuda::DeviceMemory on_device(const std::vector<float>& values) {
    return cuda::DeviceMemory(std::as_bytes(std::span(values)));
}

std::vector<float> from_device(const cuda::DeviceMemory& memory) {
    std::vector<float> out(memory.size() / sizeof(float));
    cuda::check(cuda::driver().copy_to_host(out.data(), memory.address(), memory.size()), "cuMemcpyDtoH");
    return out;
}

/// Worker 0 squares x into a; worker 1 squares a into y, after a signal of worker 0.
Plan two_workers(bool signalled) {
    sample::PlanBuilder builder;
    const BufferId x = builder.buffer("x", DType::F32, {kCount}, BufferRole::Input);
    const BufferId a = builder.buffer("a", DType::F32, {kCount}, BufferRole::Arena);
    const BufferId y = builder.buffer("y", DType::F32, {kCount}, BufferRole::Output);
    builder.add("first#0", sample::square(builder, x, a, {kCount}), {Range{0, kCount}, {}, {}, {}});
    builder.add("second#1", sample::square(builder, a, y, {kCount}), {Range{0, kCount}, {}, {}, {}});
    Plan plan = builder.finish(machine());
    plan.graph.tasks[1].after = {{0, 1}};
    plan.workers = {{{plan.workers[0].queue[0]}, {}}, {{plan.workers[0].queue[1]}, {}}};
    plan.events = {{HandOff::Counter, 1, "first is done"}};
    if (signalled) plan.workers[0].queue[0].signals = {EventId(0)};
    plan.workers[1].queue[0].waits = {{EventId(0), 1}};
    return plan;
}

/// Worker 0 squares x into the words of a; worker 1 squares them into y. `written`: how many elements of a come.
Plan two_workers_with_words(std::int64_t written) {
    Plan plan = two_workers(true);
    plan.graph.tasks[0].tile[0].end = written;
    plan.graph.regions.buffers[1].tagged = true;
    plan.arena_bytes = plan.graph.regions.buffers[1].size_bytes();
    plan.events.clear();
    for (Worker& worker : plan.workers) worker.queue[0] = {worker.queue[0].task, {}, {}};
    return plan;
}

/// Launches a program that squares twice again and again, with new numbers and a poisoned output.
void expect_fourth_powers(Executor& executor) {
    for (unsigned launch = 0; launch < 50; ++launch) {
        const std::vector<float> x = random_floats(launch);
        const cuda::DeviceMemory input = on_device(x);
        const cuda::DeviceMemory output = on_device(std::vector<float>(kCount, std::nanf("")));
        executor.run({input.as<void>(), nullptr, output.as<void>()}, nullptr);
        executor.synchronize();
        const std::vector<float> y = from_device(output);
        for (std::int64_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i], (x[i] * x[i]) * (x[i] * x[i])) << launch;
    }
}

class CudaRun : public testing::Test {
protected:
    void SetUp() override {
        if (!cuda_available()) GTEST_SKIP() << "no CUDA device";
        static_cast<void>(cuda::use_context());
    }
};

TEST_F(CudaRun, HandsOverBetweenWorkersInEveryLaunch) {
    const Plan plan = two_workers(true);
    const auto executor = make_cuda_executor(plan, emit(plan, machine()));
    expect_fourth_powers(*executor);
}

TEST_F(CudaRun, HandsOverWordsInEveryLaunch) {
    const Plan plan = two_workers_with_words(kCount);
    const auto executor = make_cuda_executor(plan, emit(plan, machine()));
    expect_fourth_powers(*executor);
}

TEST_F(CudaRun, NamesTheBufferOfAWordThatDoesNotComeAndRunsAgain) {
    const Plan broken = two_workers_with_words(kCount - 1);
    const auto stuck = make_cuda_executor(broken, emit(broken, machine()), {.timeout_ns = 20'000'000});
    const cuda::DeviceMemory input = on_device(random_floats(1));
    const cuda::DeviceMemory output = on_device(random_floats(2));
    for (int i = 0; i < 2; ++i) {
        stuck->run({input.as<void>(), nullptr, output.as<void>()}, nullptr);
        try {
            stuck->synchronize();
            FAIL() << "no time-out";
        } catch (const RunError& error) {
            const std::string message = error.what();
            EXPECT_NE(message.find("#1 second#1"), std::string::npos) << message;
            EXPECT_NE(message.find("waits for a word of 'a'"), std::string::npos) << message;
        }
    }
}

TEST_F(CudaRun, KernelsOfTheirOwnComputeTheSame) {
    const Plan plan = two_workers(true);
    for (const Launches launches : {Launches::Kernels, Launches::OverlappedKernels}) {
        const auto executor = make_cuda_executor(plan, emit(plan, machine()), {.launches = launches});
        expect_fourth_powers(*executor);
    }
}

TEST_F(CudaRun, NamesTheWaitThatTimedOutAndRunsAgain) {
    const Plan broken = two_workers(false);
    const auto stuck = make_cuda_executor(broken, emit(broken, machine()), {.timeout_ns = 20'000'000});
    const cuda::DeviceMemory input = on_device(random_floats(1));
    const cuda::DeviceMemory output = on_device(random_floats(2));
    const Bindings bindings{input.as<void>(), nullptr, output.as<void>()};
    for (int i = 0; i < 2; ++i) {
        stuck->run(bindings, nullptr);
        try {
            stuck->synchronize();
            FAIL() << "no time-out";
        } catch (const RunError& error) {
            const std::string message = error.what();
            EXPECT_NE(message.find("worker 1"), std::string::npos) << message;
            EXPECT_NE(message.find("#1 second#1"), std::string::npos) << message;
            EXPECT_NE(message.find("first is done: 1 signals are missing"), std::string::npos) << message;
        }
    }
    const Plan whole = two_workers(true);
    const auto executor = make_cuda_executor(whole, emit(whole, machine()));
    executor->run(bindings, nullptr);
    EXPECT_NO_THROW(executor->synchronize());
}

TEST_F(CudaRun, RunsEveryKindWithItsStream) {
    const Plan plan = sample::every_kind(machine(), 4);
    const auto executor = make_cuda_executor(plan, emit(plan, machine()));
    std::vector<cuda::DeviceMemory> memory;
    Bindings bindings;
    for (const Buffer& buffer : plan.graph.regions.buffers) {
        const bool external = buffer.role != BufferRole::Arena;
        memory.emplace_back(external ? static_cast<std::size_t>(buffer.size_bytes()) : 0);
        memory.back().clear();
        bindings.push_back(memory.back().as<void>());
    }
    cuda::finish_copies();
    for (int launch = 0; launch < 20; ++launch) executor->run(bindings, nullptr);
    EXPECT_NO_THROW(executor->synchronize());
}

TEST_F(CudaRun, TracesEveryTaskInOrder) {
    const Plan plan = two_workers(true);
    const auto executor = make_cuda_executor(plan, emit(plan, machine()), {.kernel = {.traced = true}});
    const cuda::DeviceMemory input = on_device(random_floats(1));
    const cuda::DeviceMemory output = on_device(random_floats(2));
    for (int launch = 0; launch < 3; ++launch) {
        executor->run({input.as<void>(), nullptr, output.as<void>()}, nullptr);
        executor->synchronize();
        const Trace trace = executor->trace();
        ASSERT_EQ(trace.tasks.size(), 2U);
        for (const TaskTimes& task : trace.tasks) {
            EXPECT_LE(task.begun, task.ready);
            EXPECT_LE(task.ready, task.staged);
            EXPECT_LT(task.staged, task.computed);
            EXPECT_LE(task.computed, task.published);
        }
        // The counter's add is seen after it was issued; clocks of two SMs agree to a tick of the timer.
        EXPECT_LE(trace.tasks[0].computed, trace.tasks[1].ready + trace.tick);
        EXPECT_EQ(trace.tasks[1].published, trace.total);
    }
}

TEST_F(CudaRun, RefusesMoreWorkersThanFit) {
    Plan plan = two_workers(true);
    plan.workers.resize(10'000);
    EXPECT_THROW(static_cast<void>(make_cuda_executor(plan, emit(plan, machine()))), UserError);
}

TEST_F(CudaRun, RefusesParametersThatMoved) {
    const Plan plan = sample::every_kind(machine(), 1);
    const auto executor = make_cuda_executor(plan, emit(plan, machine()));
    const cuda::DeviceMemory memory(1 << 20);
    const cuda::DeviceMemory other(1 << 20);
    memory.clear();
    Bindings bindings(plan.graph.regions.buffers.size(), memory.as<void>());
    executor->run(bindings, nullptr);
    executor->synchronize();
    bindings[2] = other.as<void>();
    EXPECT_THROW(executor->run(bindings, nullptr), UserError);
}

/// BF16 numbers of one binary digit each, by a seed.
cuda::DeviceMemory random_weights(std::int64_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::vector<std::uint16_t> bits;
    for (std::int64_t i = 0; i < count; ++i) {
        bits.push_back(static_cast<std::uint16_t>(0x3c00 + (engine() % 2) * 0x8080));  // 1/128 or -1/64
    }
    return cuda::DeviceMemory(std::as_bytes(std::span(bits)));
}

TEST_F(CudaRun, PackedWeightsAreThoseOfTheLastRefresh) {
    constexpr std::int64_t kRows = 23;  // two panels of eight, and one of seven
    constexpr std::int64_t kDepth = 2048;
    sample::PlanBuilder builder;
    const BufferId x = builder.buffer("x", DType::BF16, {1, kDepth}, BufferRole::Input);
    const BufferId gate = builder.buffer("gate", DType::BF16, {kRows, kDepth}, BufferRole::Parameter);
    const BufferId up = builder.buffer("up", DType::BF16, {kRows, kDepth}, BufferRole::Parameter);
    const BufferId y = builder.buffer("y", DType::F32, {1, kRows}, BufferRole::Output);
    builder.add("gated", sample::gated(builder, x, gate, up, y, {1, 1, kRows, kDepth}),
                {Range{0, 1}, {0, 1}, {0, kRows}, {}});
    const Plan plan = builder.finish(machine());
    ASSERT_GT(packed_bytes(plan), 2 * kRows * kDepth * 2) << "all of it is packed";
    const cuda::DeviceMemory input = random_weights(kDepth, 1);
    const cuda::DeviceMemory gates = random_weights(kRows * kDepth, 2);
    const cuda::DeviceMemory ups = random_weights(kRows * kDepth, 3);
    const auto results = [&](Executor& executor) {
        const cuda::DeviceMemory output = on_device(std::vector<float>(kRows, std::nanf("")));
        executor.run({input.as<void>(), gates.as<void>(), ups.as<void>(), output.as<void>()}, nullptr);
        executor.synchronize();
        return from_device(output);
    };
    const auto in_place = make_cuda_executor(plan, emit(plan, machine()));
    const auto packed = make_cuda_executor(plan, emit(plan, machine()), {.packed_weights = true});
    const std::vector<float> before = results(*in_place);
    EXPECT_EQ(results(*packed), before);
    const cuda::DeviceMemory others = random_weights(kRows * kDepth, 4);
    std::vector<std::byte> bytes(others.size());
    cuda::check(cuda::driver().copy_to_host(bytes.data(), others.address(), bytes.size()), "cuMemcpyDtoH");
    cuda::check(cuda::driver().copy_to_device(ups.address(), bytes.data(), bytes.size()), "cuMemcpyHtoD");
    const std::vector<float> after = results(*in_place);
    EXPECT_NE(after, before);
    EXPECT_EQ(results(*packed), before);
    packed->refresh();
    EXPECT_EQ(results(*packed), after);
}

TEST(CudaDriver, SaysWhatToDoWithoutADevice) {
    if (cuda_available()) GTEST_SKIP() << "there is a device";
    const Plan plan = two_workers(true);
    try {
        static_cast<void>(make_cuda_executor(plan, emit(plan, machine())));
        FAIL() << "accepted";
    } catch (const UserError& error) {
        EXPECT_NE(std::string(error.what()).find("use the cpu backend"), std::string::npos);
    }
}

}  // namespace
}  // namespace stretto
