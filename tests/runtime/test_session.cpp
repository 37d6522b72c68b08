#include <gtest/gtest.h>

#include <memory>

#include "backends/cuda/executor.h"
#include "base/error.h"
#include "runtime/programs.h"
#include "runtime/session.h"
#include "runtime/tensors.h"

namespace stretto {
namespace {

using test::floats_of;
using test::linear_program;
using test::running_sum_program;
using test::tensor_of;
using Floats = std::vector<float>;

std::shared_ptr<const Program> shared(Program program) {
    return std::make_shared<const Program>(std::move(program));
}

std::string error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

std::vector<Backend> available_backends() {
    std::vector<Backend> backends{Backend::Reference, Backend::Cpu};
    if (cuda_available()) backends.push_back(Backend::Cuda);
    return backends;
}

class SessionTest : public testing::TestWithParam<Backend> {};

TEST_P(SessionTest, ComputesWhatTheProgramSays) {
    const auto program = shared(linear_program(GetParam()));
    const HostTensor x = random_tensor(DType::F32, {3, 20}, 5);
    Session session(program, GetParam());
    session.set("x", x);
    session.run();
    const Floats result = floats_of(session.get("y"));
    const Floats in = floats_of(x);
    const Floats weight = floats_of(program->tensors.at("weight"));
    const Floats bias = floats_of(program->tensors.at("bias"));
    ASSERT_EQ(result.size(), 21U);
    for (std::size_t m = 0; m < 3; ++m) {
        for (std::size_t n = 0; n < 7; ++n) {
            double sum = bias[n];
            for (std::size_t k = 0; k < 20; ++k) sum += double{in[m * 20 + k]} * weight[n * 20 + k];
            EXPECT_NEAR(result[m * 7 + n], sum, 1e-5);  // 21 roundings of numbers below 8, at 2^-24 each
        }
    }
}

TEST_P(SessionTest, CarriesStateFromRunToRun) {
    Session session(shared(running_sum_program(GetParam())), GetParam());
    session.set("x", tensor_of({1, 2, 3, 4}, {4}));
    session.run();
    EXPECT_EQ(floats_of(session.get("y")), (Floats{11, 22, 33, 44}));
    session.run();
    EXPECT_EQ(floats_of(session.get("total")), (Floats{12, 24, 36, 48}));
}

TEST_P(SessionTest, CarriesStateFromIterationToIteration) {
    Session session(shared(running_sum_program(GetParam())), GetParam());
    session.set("x", tensor_of({1, 2, 3, 4}, {4}));
    session.run(5);
    EXPECT_EQ(floats_of(session.get("total")), (Floats{15, 30, 45, 60}));
    EXPECT_EQ(floats_of(session.get("y")), (Floats{15, 30, 45, 60}));
}

TEST_P(SessionTest, ResetStateGoesBackToTheFirstValue) {
    Session session(shared(running_sum_program(GetParam())), GetParam());
    session.set("x", tensor_of({1, 2, 3, 4}, {4}));
    session.run();
    session.reset_state();
    EXPECT_EQ(floats_of(session.get("total")), (Floats{10, 20, 30, 40}));
}

TEST_P(SessionTest, TwoSessionsOfOneProgramDoNotShareState) {
    const auto program = shared(running_sum_program(GetParam()));
    Session first(program, GetParam());
    Session second(program, GetParam());
    first.set("x", tensor_of({1, 1, 1, 1}, {4}));
    first.run();
    EXPECT_EQ(floats_of(second.get("total")), (Floats{10, 20, 30, 40}));
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionTest, testing::ValuesIn(available_backends()),
                         [](const auto& backend) {
                             if (backend.param == Backend::Cuda) return "Cuda";
                             return backend.param == Backend::Cpu ? "Cpu" : "Reference";
                         });

TEST(SessionErrors, AnUnknownNameListsTheKnownOnes) {
    Session session(shared(linear_program()), Backend::Cpu);
    EXPECT_EQ(error_of([&] { session.set("q", tensor_of({1}, {1})); }),
              "the program has no tensor 'q'; it has x, y");
}

TEST(SessionErrors, AWrongShapeNamesBoth) {
    Session session(shared(linear_program()), Backend::Cpu);
    EXPECT_EQ(error_of([&] {
                  session.set("x", tensor_of({1, 2}, {1, 2}));
              }),
              "'x' is f32[3,20], but the given tensor is f32[1,2]");
}

TEST(SessionErrors, AnOutputCannotBeSet) {
    Session session(shared(linear_program()), Backend::Cpu);
    EXPECT_EQ(error_of([&] {
                  session.set("y", random_tensor(DType::F32, {3, 7}, 1));
              }),
              "'y' is an output; only inputs and states can be set");
}

TEST(SessionErrors, AMissingInputIsNamedWithItsType) {
    Session session(shared(linear_program()), Backend::Cpu);
    EXPECT_EQ(error_of([&] { session.run(); }), "no value was given for 'x' (f32[3,20])");
}

TEST(SessionErrors, AnOutputHasNoValueBeforeTheFirstRun) {
    Session session(shared(linear_program()), Backend::Cpu);
    EXPECT_EQ(error_of([&] { static_cast<void>(session.get("y")); }),
              "output 'y' has no value before the first run");
}

TEST(SessionErrors, ACpuProgramOnAGpuSaysHowToCompileIt) {
    EXPECT_EQ(error_of([] { Session(shared(linear_program()), Backend::Cuda); }),
              "this program was planned for 'cpu'; compile it with --machine h200 to run it on a GPU");
}

TEST(SessionErrors, AnUnknownBackendListsTheKnownOnes) {
    EXPECT_EQ(error_of([] { static_cast<void>(parse_backend("gpu")); }),
              "unknown backend 'gpu'; known: reference, cpu, cuda");
}

}  // namespace
}  // namespace stretto
