#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

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

TEST_P(SessionTest, RunsForAsLongAsTheHostGrants) {
    Session session(shared(running_sum_program(GetParam())), GetParam(), {.states_on_host = {"total"}});
    session.set("x", tensor_of({1, 2, 3, 4}, {4}));
    std::vector<std::uint64_t> seen;
    std::vector<Floats> totals;
    const std::uint64_t ran = session.run_granted([&](std::uint64_t done) {
        seen.push_back(done);
        if (done % 4 == 0) totals.push_back(floats_of(session.get("total")));  // nothing runs meanwhile
        return std::min<std::uint64_t>(done / 4 * 4 + 4, 12);
    });
    EXPECT_EQ(ran, 12U);
    EXPECT_EQ(seen.front(), 0U);
    EXPECT_EQ(seen.back(), 12U);
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    const std::vector<Floats> expected{
        {10, 20, 30, 40}, {14, 28, 42, 56}, {18, 36, 54, 72}, {22, 44, 66, 88}};
    EXPECT_EQ(totals, expected);
    EXPECT_EQ(floats_of(session.get("y")), expected.back());
    EXPECT_EQ(session.run_granted([](std::uint64_t) { return 0; }), 0U);
    session.run();
    EXPECT_EQ(floats_of(session.get("total")), (Floats{23, 46, 69, 92}));
}

TEST_P(SessionTest, StopsBehindAnIterationWhereTheHostGrantsNoMore) {
    Session session(shared(running_sum_program(GetParam())), GetParam(), {.states_on_host = {"total"}});
    session.set("x", tensor_of({1, 0, 0, 0}, {4}));
    const std::uint64_t ran =
        session.run_granted([](std::uint64_t done) { return done < 5 ? 1'000'000'000 : 0; });
    EXPECT_GE(ran, 5U);
    EXPECT_EQ(floats_of(session.get("total"))[0], static_cast<float>(10 + ran));
}

TEST_P(SessionTest, WhatTheHostThrowsEndsTheLaunch) {
    Session session(shared(running_sum_program(GetParam())), GetParam());
    session.set("x", tensor_of({1, 0, 0, 0}, {4}));
    const auto interrupted = [](std::uint64_t done) -> std::uint64_t {
        if (done >= 3) throw std::runtime_error("interrupted");
        return 1'000'000'000;
    };
    EXPECT_THROW(session.run_granted(interrupted), std::runtime_error);
    const float after = floats_of(session.get("total"))[0];
    EXPECT_GE(after, 13);
    session.run();
    EXPECT_EQ(floats_of(session.get("total"))[0], after + 1);
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

TEST(SessionErrors, OnlyStatesLiveOnTheHost) {
    EXPECT_EQ(
        error_of([&] { Session(shared(running_sum_program()), Backend::Cpu, {.states_on_host = {"x"}}); }),
        "'x' is no state: only states can be read while iterations run");
}

TEST(SessionErrors, IterationsThatAreGrantedNeedTheirInputs) {
    Session session(shared(running_sum_program()), Backend::Cpu);
    EXPECT_EQ(error_of([&] { session.run_granted([](std::uint64_t) { return 1; }); }),
              "no value was given for 'x' (f32[4])");
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
