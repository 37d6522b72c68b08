#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fuse/fuse.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

const Shape kShape{512, 1024};

RegionGraph fused(GraphBuilder& b) {
    return fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Fused);
}

/// The buffers that a map region stores, in order; nothing for other regions.
std::vector<std::string> stored(const RegionGraph& graph, std::size_t region) {
    std::vector<std::string> names;
    if (const auto* map = std::get_if<MapRegion>(&graph.regions[region].body)) {
        for (const Store& store : map->stores) names.push_back(graph[BufferId(store.target.source)].name);
    }
    return names;
}

TEST(FuseJoin, AnOptimizerTouchesEachOfItsStatesOnce) {
    GraphBuilder b;
    const auto state = [&](const char* name) { return b.input(Role::State, name, DType::F32, kShape); };
    const Tensor p = state("p"), m = state("m"), v = state("v");
    const Tensor g = b.input(Role::User, "g", DType::F32, kShape);
    const Tensor first = b.apply(Op::Add, {m, g}, DType::F32);
    const Tensor second = b.apply(Op::Add, {v, b.apply(Op::Mul, {g, g}, DType::F32)}, DType::F32);
    const Tensor move = b.apply(Op::Div, {first, b.apply(Op::Sqrt, {second}, DType::F32)}, DType::F32);
    b.update_state(m, first, "m");
    b.update_state(v, second, "v");
    b.update_state(p, b.apply(Op::Sub, {p, move}, DType::F32), "p");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_EQ(graph.buffers.size(), 4U);
    EXPECT_EQ(stored(graph, 0).front(), "p") << "it reads the old moments";
}

TEST(FuseJoin, StatesThatChangePlacesStayApart) {
    GraphBuilder b;
    const Tensor x = b.input(Role::State, "x", DType::F32, kShape);
    const Tensor y = b.input(Role::State, "y", DType::F32, kShape);
    b.update_state(x, b.apply(Op::Neg, {y}, DType::F32), "x");
    b.update_state(y, b.apply(Op::Abs, {x}, DType::F32), "y");
    const RegionGraph graph = fused(b);
    for (std::size_t r = 0; r < graph.regions.size(); ++r) {
        const auto names = stored(graph, r);
        EXPECT_FALSE(std::count(names.begin(), names.end(), "x") > 0 &&
                     std::count(names.begin(), names.end(), "y") > 0);
    }
}

TEST(FuseJoin, AWholeReductionStandsBetweenItsOperandAndItsReader) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, kShape);
    const Tensor y = b.apply(Op::Exp, {x}, DType::F32);
    b.output(y, "y");
    const Tensor total = b.reduce(ReduceOp::Sum, y, {0, 1}, true, DType::F32);
    b.output(b.apply(Op::Div, {y, total}, DType::F32), "z");
    const RegionGraph graph = fused(b);
    EXPECT_EQ(stored(graph, 0), std::vector<std::string>{"y"});
    EXPECT_EQ(stored(graph, graph.regions.size() - 1), std::vector<std::string>{"z"});
}

TEST(FuseJoin, ElementsInAnotherOrderAreNotTheSame) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {256, 256});
    b.output(b.apply(Op::Exp, {x}, DType::F32), "y");
    b.output(b.apply(Op::Neg, {b.transpose(x, 0, 1)}, DType::F32), "z");
    EXPECT_EQ(fused(b).regions.size(), 2U);
}

}  // namespace
}  // namespace stretto
