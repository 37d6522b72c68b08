#include "runtime/programs.h"

#include <cstring>

#include "graph/builder.h"
#include "pipeline/pipeline.h"
#include "runtime/tensors.h"

namespace stretto::test {
namespace {

Program compiled(Imported model, Backend backend) {
    const Machine machine = machine_for(backend);
    return make_program(compile(model.graph, {machine}), model, "a test");
}

}  // namespace

Machine machine_for(Backend backend) {
    if (backend == Backend::Cuda) return builtin_machine("h200");
    Machine machine = builtin_machine("cpu");
    machine.workers = 3;
    return machine;
}

HostTensor tensor_of(const std::vector<float>& values, Shape shape) {
    const std::size_t size = values.size() * sizeof(float);
    const auto bytes = std::make_shared<std::byte[]>(size);
    std::memcpy(bytes.get(), values.data(), size);
    return {DType::F32, std::move(shape), {bytes, bytes.get()}, size};
}

std::vector<float> floats_of(const HostTensor& tensor) {
    std::vector<float> values(tensor.size / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.get(), tensor.size);
    return values;
}

Program linear_program(Backend backend) {
    GraphBuilder builder;
    Imported model;
    const Tensor x = builder.input(Role::User, "x", DType::F32, {3, 20});
    const Tensor weight = builder.input(Role::Parameter, "weight", DType::F32, {7, 20});
    const Tensor bias = builder.input(Role::Parameter, "bias", DType::F32, {7});
    builder.output(builder.linear(x, weight, bias), "y");
    model.graph = builder.finish();
    model.tensors = {{"weight", random_tensor(DType::F32, {7, 20}, 1)},
                     {"bias", random_tensor(DType::F32, {7}, 2)}};
    model.user_inputs = {"x"};
    model.user_outputs = {"y"};
    return compiled(std::move(model), backend);
}

Program running_sum_program(Backend backend) {
    GraphBuilder builder;
    Imported model;
    const Tensor x = builder.input(Role::User, "x", DType::F32, {4});
    const Tensor total = builder.input(Role::State, "total", DType::F32, {4});
    const Tensor next = builder.apply(Op::Add, {total, x}, DType::F32);
    builder.update_state(total, next, "total");
    builder.output(next, "y");
    model.graph = builder.finish();
    model.tensors = {{"total", tensor_of({10, 20, 30, 40}, {4})}};
    model.user_inputs = {"x"};
    model.user_outputs = {"y"};
    return compiled(std::move(model), backend);
}

Program tied_program() {
    GraphBuilder builder;
    Imported model;
    const Tensor x = builder.input(Role::User, "x", DType::F32, {4});
    const Tensor a = builder.input(Role::Parameter, "a", DType::F32, {4});
    const Tensor b = builder.input(Role::Parameter, "b", DType::F32, {4});
    builder.output(builder.apply(Op::Add, {builder.apply(Op::Mul, {x, a}, DType::F32), b}, DType::F32), "y");
    model.graph = builder.finish();
    model.tensors["a"] = random_tensor(DType::F32, {4}, 1);
    model.tensors["b"] = model.tensors["a"];
    model.user_inputs = {"x"};
    model.user_outputs = {"y"};
    return compiled(std::move(model), Backend::Cpu);
}

}  // namespace stretto::test
