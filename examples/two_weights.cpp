// One training update with two weights, in the C++ API: y = w2 * (w1 * x), loss = (y - t)^2 / 2, w -= 0.1 * gradient.
// Two updates in one launch carry the weights from the first to the second without the host.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "graph/builder.h"
#include "runtime/session.h"
#include "runtime/tensors.h"

using namespace stretto;

namespace {

HostTensor scalar(float value) {
    const std::shared_ptr<std::byte> bytes(new std::byte[sizeof value], std::default_delete<std::byte[]>());
    std::memcpy(bytes.get(), &value, sizeof value);
    return {DType::F32, {1}, bytes, sizeof value};
}

float number(const HostTensor& tensor) {
    float value = 0;
    std::memcpy(&value, tensor.bytes.get(), sizeof value);
    return value;
}

/// The update, with its weights as state. Each gradient is a product of what the forward pass computed.
Imported two_weights() {
    GraphBuilder b;
    const auto number_of = [&](double value) { return b.full({1}, value, DType::F32); };
    const auto mul = [&](const Tensor& x, const Tensor& y) { return b.apply(Op::Mul, {x, y}, DType::F32); };
    const auto sub = [&](const Tensor& x, const Tensor& y) { return b.apply(Op::Sub, {x, y}, DType::F32); };

    const Tensor w1 = b.input(Role::State, "w1", DType::F32, {1});
    const Tensor w2 = b.input(Role::State, "w2", DType::F32, {1});
    const Tensor x = b.input(Role::User, "x", DType::F32, {1});
    const Tensor t = b.input(Role::User, "t", DType::F32, {1});
    const Tensor h = mul(w1, x);
    const Tensor error = sub(mul(w2, h), t);
    const Tensor gradient1 = mul(mul(error, w2), x);
    const Tensor gradient2 = mul(error, h);
    b.output(mul(number_of(0.5), mul(error, error)), "loss");
    b.update_state(w1, sub(w1, mul(number_of(0.1), gradient1)), "w1");
    b.update_state(w2, sub(w2, mul(number_of(0.1), gradient2)), "w2");

    Imported update;
    update.graph = b.finish();
    update.tensors = {{"w1", scalar(0.5F)}, {"w2", scalar(1.5F)}};
    update.user_inputs = {"x", "t"};
    update.user_outputs = {"loss"};
    return update;
}

bool is(const char* what, float got, float wanted) {
    fmt::print("{} = {:.5f}\n", what, got);
    return std::abs(got - wanted) <= 0.5e-5F;
}

}  // namespace

int main() {
    const Imported update = two_weights();
    const Machine machine = builtin_machine("cpu");
    const auto program = std::make_shared<const Program>(
        make_program(compile(update.graph, {machine}), update, "two_weights.cpp"));

    Session session(program, Backend::Cpu);
    session.set("x", scalar(2));
    session.set("t", scalar(1));
    session.run();
    bool right = is("loss", number(session.get("loss")), 0.125F);
    right = is("w1", number(session.get("w1")), 0.35F) && right;
    right = is("w2", number(session.get("w2")), 1.45F) && right;

    session.reset_state();
    session.run(2);
    right = is("loss after one update", number(session.get("loss")), 0.00011F) && right;
    return right ? 0 : 1;
}
