#include "verify/real_plans.h"

#include "fuse/fuse.h"
#include "graph/builder.h"
#include "memory/memory.h"
#include "schedule/schedule.h"
#include "simplify/simplify.h"
#include "support/attention_graph.h"
#include "support/decode_graph.h"
#include "tile/tile.h"

namespace stretto {
namespace {

Graph mlp() {
    GraphBuilder build;
    const Tensor x = build.input(Role::User, "x", DType::BF16, {3, 48});
    const Tensor gate = build.input(Role::Parameter, "gate", DType::BF16, {80, 48});
    const Tensor up = build.input(Role::Parameter, "up", DType::BF16, {80, 48});
    const Tensor down = build.input(Role::Parameter, "down", DType::BF16, {48, 80});
    const Tensor open = build.apply(Op::Sigmoid, {build.linear(x, gate, std::nullopt)}, DType::BF16);
    const Tensor wide = build.apply(Op::Mul, {open, build.linear(x, up, std::nullopt)}, DType::BF16);
    const Tensor y = build.linear(wide, down, std::nullopt);
    build.output(build.apply(Op::Add, {x, y}, DType::BF16), "y");
    return build.finish();
}

/// Rows that travel in three pieces, as three products of one left side.
Graph long_rows() {
    GraphBuilder build;
    const Tensor x = build.input(Role::User, "x", DType::BF16, {2, 2080});
    for (const char* name : {"a", "b", "c"}) {
        const Tensor weight = build.input(Role::Parameter, name, DType::BF16, {20, 2080});
        build.output(build.linear(x, weight, std::nullopt), std::string("y_") + name);
    }
    return build.finish();
}

Graph running_mean() {
    GraphBuilder build;
    const Tensor x = build.input(Role::User, "x", DType::F32, {16, 24});
    const Tensor state = build.input(Role::State, "mean", DType::F32, {24});
    const Tensor sum = build.reduce(ReduceOp::Sum, x, {0}, false, DType::F32);
    const Tensor share = build.apply(Op::Mul, {sum, build.full({}, 0.0625, DType::F32)}, DType::F32);
    const Tensor next =
        build.apply(Op::Add,
                    {build.apply(Op::Mul, {state, build.full({}, 0.9, DType::F32)}, DType::F32),
                     build.apply(Op::Mul, {share, build.full({}, 0.1, DType::F32)}, DType::F32)},
                    DType::F32);
    build.output(build.apply(Op::Sub, {x, state}, DType::F32), "centred");
    build.output(build.softmax(build.apply(Op::Mul, {x, next}, DType::F32), 1, DType::F32), "shares");
    build.update_state(state, next, "mean");
    return build.finish();
}

Tensor scaled(GraphBuilder& build, const Tensor& x, double by) {
    return build.apply(Op::Mul, {x, build.full({}, by, DType::F32)}, DType::F32);
}

/// Gradient descent with momentum and a bound on the gradients' norm: two layers, whose weights are read forward and
/// backward, and written at the end.
Graph training() {
    GraphBuilder build;
    const Tensor x = build.input(Role::User, "x", DType::F32, {6, 20});
    const Tensor target = build.input(Role::User, "target", DType::F32, {6, 16});
    const std::vector<Tensor> weights{build.input(Role::State, "first", DType::F32, {24, 20}),
                                      build.input(Role::State, "second", DType::F32, {16, 24})};
    const Tensor wide = build.linear(x, weights[0], std::nullopt);
    const Tensor hidden = build.apply(Op::Tanh, {wide}, DType::F32);
    const Tensor error =
        build.apply(Op::Sub, {build.linear(hidden, weights[1], std::nullopt), target}, DType::F32);
    const Tensor back = build.matmul(error, weights[1]);
    const Tensor slope = build.apply(
        Op::Sub, {build.full({}, 1, DType::F32), build.apply(Op::Mul, {hidden, hidden}, DType::F32)},
        DType::F32);
    const Tensor through = build.apply(Op::Mul, {back, slope}, DType::F32);
    const std::vector<Tensor> gradients{build.matmul(build.transpose(through, 0, 1), x),
                                        build.matmul(build.transpose(error, 0, 1), hidden)};
    std::vector<Tensor> squares;
    for (const Tensor& gradient : gradients) {
        const Tensor square = build.apply(Op::Mul, {gradient, gradient}, DType::F32);
        squares.push_back(build.reduce(ReduceOp::Sum, square, {0, 1}, false, DType::F32));
    }
    const Tensor size = build.apply(Op::Rsqrt, {build.apply(Op::Add, squares, DType::F32)}, DType::F32);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        const std::string name = i == 0 ? "first" : "second";
        const Tensor momentum =
            build.input(Role::State, name + ".momentum", DType::F32, i == 0 ? Shape{24, 20} : Shape{16, 24});
        const Tensor bounded = build.apply(Op::Mul, {gradients[i], size}, DType::F32);
        const Tensor moved = build.apply(Op::Add, {scaled(build, momentum, 0.9), bounded}, DType::F32);
        build.update_state(momentum, moved, name + ".momentum");
        build.update_state(weights[i],
                           build.apply(Op::Sub, {weights[i], scaled(build, moved, 0.1)}, DType::F32), name);
    }
    build.output(build.reduce(ReduceOp::Sum, build.apply(Op::Mul, {error, error}, DType::F32), {0, 1}, false,
                              DType::F32),
                 "loss");
    return build.finish();
}

}  // namespace

Machine small_machine(int workers) {
    Machine machine = builtin_machine("h200");
    machine.name = "small";
    machine.workers = workers;
    machine.consumer_warps = 1;
    return machine;
}

Plan planned(const Graph& graph, const Machine& machine) {
    return place_buffers(schedule(tile(fuse(simplify(graph), machine), machine), machine));
}

std::vector<Plan> real_plans() {
    DecodeSizes sizes;
    sizes.layers = 1;
    std::vector<Plan> plans;
    for (const int workers : {3, 4, 6}) {
        const Machine machine = small_machine(workers);
        plans.push_back(planned(mlp(), machine));
        plans.push_back(planned(long_rows(), machine));
        plans.push_back(planned(running_mean(), machine));
        plans.push_back(planned(training(), machine));
        plans.push_back(planned(decode_graph(sizes), machine));
    }
    Machine wide = small_machine(3);  // scores are computed anew where warps can share rows
    wide.consumer_warps = 8;
    plans.push_back(planned(attention_gradients({.rows = 66}), wide));
    return plans;
}

}  // namespace stretto
