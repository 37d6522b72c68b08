#include "verify/real_plans.h"

#include "fuse/fuse.h"
#include "graph/builder.h"
#include "memory/memory.h"
#include "schedule/schedule.h"
#include "simplify/simplify.h"
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
        plans.push_back(planned(decode_graph(sizes), machine));
    }
    return plans;
}

}  // namespace stretto
