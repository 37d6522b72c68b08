// Builds a small network with the C++ graph builder, compiles it for this computer's processor, and runs it.
#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "graph/builder.h"
#include "runtime/session.h"
#include "runtime/tensors.h"

using namespace stretto;

namespace {

constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kHidden = 256;

/// y = down(relu(up(x)))
Imported two_layer_network() {
    GraphBuilder builder;
    Imported model;
    const auto parameter = [&](const std::string& name, const Shape& shape) {
        model.tensors[name] = random_tensor(DType::F32, shape, model.tensors.size());
        return builder.input(Role::Parameter, name, DType::F32, shape);
    };
    const Tensor x = builder.input(Role::User, "x", DType::F32, {kBatch, kWidth});
    const Tensor up =
        builder.linear(x, parameter("up.weight", {kHidden, kWidth}), parameter("up.bias", {kHidden}));
    const Tensor relu = builder.apply(Op::Max, {up, builder.full({}, 0, DType::F32)}, DType::F32);
    builder.output(builder.linear(relu, parameter("down.weight", {kWidth, kHidden}), std::nullopt), "y");
    model.graph = builder.finish();
    model.user_inputs = {"x"};
    model.user_outputs = {"y"};
    return model;
}

}  // namespace

int main() {
    const Imported model = two_layer_network();
    const Machine machine = builtin_machine("cpu");
    const auto program = std::make_shared<const Program>(
        make_program(compile(model.graph, {machine}), model, "build_graph.cpp"));

    Session session(program, Backend::Cpu);
    session.set("x", random_tensor(DType::F32, {kBatch, kWidth}, 42));
    session.run();

    const HostTensor y = session.get("y");
    float first = 0;
    std::memcpy(&first, y.bytes.get(), sizeof first);
    fmt::print("{} tasks; y[0, 0] = {}\n", program->plan.graph.tasks.size(), first);
}
