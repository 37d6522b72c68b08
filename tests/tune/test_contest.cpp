#include <gtest/gtest.h>

#include <cmath>

#include "graph/builder.h"
#include "runtime/tensors.h"
#include "support/decode_graph.h"
#include "tune/contest.h"

namespace stretto {
namespace {

Machine machine() {
    Machine machine = builtin_machine("cpu");
    machine.workers = 3;
    return machine;
}

/// The state counts by x; y is its new value times a weight, at `scale`.
Imported model(double scale) {
    GraphBuilder build;
    Imported model;
    const Tensor x = build.input(Role::User, "x", DType::F32, {4, 16});
    const Tensor total = build.input(Role::State, "total", DType::F32, {4, 16});
    const Tensor weight = build.input(Role::Parameter, "weight", DType::F32, {24, 16});
    const Tensor next = build.apply(Op::Add, {total, x}, DType::F32);
    build.update_state(total, next, "total");
    const Tensor y = build.linear(next, weight, std::nullopt);
    build.output(build.apply(Op::Mul, {y, build.full({}, scale, DType::F32)}, DType::F32), "y");
    model.graph = build.finish();
    model.tensors = {{"weight", random_tensor(DType::F32, {24, 16}, 1)},
                     {"total", random_tensor(DType::F32, {4, 16}, 2)}};
    model.user_inputs = {"x"};
    model.user_outputs = {"y"};
    return model;
}

Compiled planned(const Imported& model, std::string_view options) {
    return compile(model.graph, {machine(), Numerics::Fused, parse_plan_options(options)});
}

void give(Session& session) { session.set("x", random_tensor(DType::F32, {4, 16}, 3)); }

std::unique_ptr<Session> session_of(const Imported& model, std::string_view options) {
    const auto program = std::make_shared<const Program>(make_program(planned(model, options), model, ""));
    auto session = std::make_unique<Session>(program, Backend::Cpu);
    give(*session);
    return session;
}

TEST(Contest, FindsNoDifferenceBetweenPlansOfOneProgram) {
    const Imported program = model(1);
    EXPECT_EQ(difference(*session_of(program, "workers=2"), *session_of(program, "")), "");
}

/// A decode step with random weights and caches.
Imported decode_step() {
    DecodeSizes sizes;
    sizes.context = 300;  // several blocks of attention
    Imported model;
    model.graph = decode_graph(sizes);
    std::uint64_t seed = 0;
    for (const Node& node : model.graph.nodes) {
        const auto* input = std::get_if<Input>(&node.op);
        if (input == nullptr) continue;
        if (input->role == Role::User) {
            model.user_inputs.push_back(input->name);
        } else {
            model.tensors[input->name] = random_tensor(node.type.dtype, node.type.shape, ++seed);
        }
    }
    for (const Output& output : model.graph.outputs) {
        if (!output.state_input.valid()) model.user_outputs.push_back(output.name);
    }
    return model;
}

TEST(Contest, EveryNeighbourOfADecodeStepVerifiesAndComputesTheSame) {
    const Imported program = decode_step();
    const auto session_with = [&](const PlanOptions& options) {
        Compiled compiled = compile(program.graph, {machine(), Numerics::Fused, options});
        const auto made = std::make_shared<const Program>(make_program(std::move(compiled), program, ""));
        auto session = std::make_unique<Session>(made, Backend::Cpu);
        session->set("input_ids", random_tensor(DType::I64, {1, 1}, 1));
        session->set("position", random_tensor(DType::I64, {1}, 2));
        return session;
    };
    const auto untuned = session_with({});
    for (const PlanOptions& options : neighbours({}, machine())) {
        EXPECT_EQ(difference(*session_with(options), *untuned), "") << to_text(options);
    }
}

TEST(Contest, ComparesFromTheFirstStateWhateverRanBefore) {
    const Imported program = model(1);
    const auto session = session_of(program, "");
    session->run(5);
    EXPECT_EQ(difference(*session, *session_of(program, "")), "");
}

TEST(Contest, NamesTheTensorThatDiffersAndByHowMuch) {
    const std::string found = difference(*session_of(model(1.25), ""), *session_of(model(1), ""));
    EXPECT_EQ(found, "'y' differs by 0.25 of its largest element");
}

TEST(Contest, SeesNumbersThatAreNotFinite) {
    const std::string found = difference(*session_of(model(HUGE_VAL), ""), *session_of(model(1), ""));
    EXPECT_EQ(found, "'y' differs by inf of its largest element");
}

TEST(Contest, TimesBothPlans) {
    const Imported program = model(1);
    const Contest run = contest(program, planned(program, ""), Backend::Cpu, give,
                                {.launch_us = 100, .most_iterations = 3, .rounds = 2});
    const Comparison result = run(planned(program, "workers=1"));
    EXPECT_EQ(result.fault, "");
    EXPECT_GT(result.measured_us, 0);
    EXPECT_GT(result.untuned_us, 0);
}

}  // namespace
}  // namespace stretto
