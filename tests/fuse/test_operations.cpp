#include <gtest/gtest.h>

#include <algorithm>

#include "fuse/fuse.h"
#include "fuse/operations.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

Expr quotient(DType type) {
    Expr e;
    const Access one{0, type, {{{atom(64, 1)}}, 0}, {}};
    e.apply(Op::Div, {e.load(one), e.constant(3, type)});
    return e;
}

TEST(Operations, DoublePrecisionCostsMoreThanSingle) {
    EXPECT_GT(operations(quotient(DType::F64)), 2 * operations(quotient(DType::F32)));
}

TEST(Operations, AnOptimizersScalarsAreComputedOnceForAllElements) {
    GraphBuilder b;
    const Tensor rate = b.input(Role::State, "rate", DType::F64, {});
    const Tensor correction = b.input(Role::State, "correction", DType::F64, {});
    const Tensor one = b.full({}, 1, DType::F64);
    const Tensor scale = b.cast(
        b.apply(Op::Div, {rate, b.apply(Op::Sub, {one, correction}, DType::F64)}, DType::F64), DType::F32);
    for (const char* name : {"p", "q"}) {
        const Tensor p = b.input(Role::State, name, DType::F32, {2048, 4096});
        const Tensor g = b.input(Role::User, std::string("g") + name, DType::F32, {2048, 4096});
        b.update_state(p, b.apply(Op::Sub, {p, b.apply(Op::Mul, {g, scale}, DType::F32)}, DType::F32), name);
    }
    const RegionGraph graph = fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Fused);
    ASSERT_EQ(graph.regions.size(), 3U);
    for (const Region& region : graph.regions) {
        const auto& map = std::get<MapRegion>(region.body);
        for (const Store& store : map.stores) {
            const bool divides = std::any_of(store.expr.nodes.begin(), store.expr.nodes.end(),
                                             [](const ExprNode& node) { return node.op == Op::Div; });
            EXPECT_EQ(divides, volume(map.space) == 1);
        }
    }
}

}  // namespace
}  // namespace stretto
