#include <gtest/gtest.h>

#include <set>

#include "fuse/fuse.h"
#include "fuse/join_products.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

constexpr std::int64_t kRows = 256;
constexpr std::int64_t kColumns = 384;
constexpr std::int64_t kDepth = 64;

/// [kRows, kColumns], the sum of kDepth products each.
Tensor product(GraphBuilder& b, DType type) {
    const Tensor x = b.input(Role::User, "x", type, {kRows, kDepth});
    return b.linear(x, b.input(Role::User, "w", type, {kColumns, kDepth}), std::nullopt);
}

RegionGraph fused(GraphBuilder& b) {
    return fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Fused);
}

/// The buffers that a product or a reduction stores, sorted; nothing for other regions.
std::set<std::string> stored(const RegionGraph& graph, std::size_t region) {
    std::set<std::string> names;
    const auto add = [&](const std::vector<Store>& stores) {
        for (const Store& store : stores) names.insert(graph[BufferId(store.target.source)].name);
    };
    const RegionBody& body = graph.regions.at(region).body;
    if (const auto* matmul = std::get_if<MatMulRegion>(&body)) add(matmul->stores);
    if (const auto* reduce = std::get_if<ReduceRegion>(&body)) add(reduce->stores);
    return names;
}

/// m and p of momentum; `gradient` is scaled by `scale` where there is one.
void momentum(GraphBuilder& b, Tensor gradient, const std::optional<Tensor>& scale,
              const Shape& shape = {kRows, kColumns}) {
    const Tensor m = b.input(Role::State, "m", DType::F32, shape);
    const Tensor p = b.input(Role::State, "p", DType::F32, shape);
    if (scale) gradient = b.apply(Op::Mul, {gradient, *scale}, DType::F32);
    const Tensor half = b.full({}, 0.5, DType::F32);
    const Tensor next = b.apply(Op::Add, {b.apply(Op::Mul, {m, half}, DType::F32), gradient}, DType::F32);
    b.update_state(m, next, "m");
    b.update_state(p, b.apply(Op::Sub, {p, next}, DType::F32), "p");
}

TEST(FuseJoinProducts, AnOptimizerIsTheEndOfTheProductThatGivesItsGradient) {
    GraphBuilder b;
    momentum(b, product(b, DType::F32), std::nullopt);
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_EQ(stored(graph, 0), (std::set<std::string>{"m", "p"}));
    EXPECT_EQ(graph.buffers.size(), 4U) << "the gradient is not stored";
}

TEST(FuseJoinProducts, AnOptimizerIsTheEndOfTheSumsThatGiveABiasItsGradient) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {kRows, kColumns});
    momentum(b, b.reduce(ReduceOp::Sum, x, {0}, false, DType::F32), std::nullopt, {kColumns});
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_EQ(stored(graph, 0), (std::set<std::string>{"m", "p"}));
    EXPECT_EQ(graph.buffers.size(), 3U) << "the gradient is not stored";
}

TEST(FuseJoinProducts, AProductStoresAValueForTheBackwardPassAndItsActivationTogether) {
    GraphBuilder b;
    const Tensor before = product(b, DType::BF16);
    b.output(before, "before");
    b.output(b.apply(Op::Tanh, {before}, DType::BF16), "after");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_EQ(stored(graph, 0), (std::set<std::string>{"before", "after"}));
}

TEST(FuseJoinProducts, ANormOfTheGradientComesBeforeTheOptimizerThatItScales) {
    GraphBuilder b;
    const Tensor gradient = product(b, DType::F32);
    const Tensor squares = b.apply(Op::Mul, {gradient, gradient}, DType::F32);
    momentum(b, gradient, b.reduce(ReduceOp::Sum, squares, {0, 1}, true, DType::F32));
    const RegionGraph graph = fused(b);
    EXPECT_TRUE(std::holds_alternative<MapRegion>(graph.regions.back().body));
    EXPECT_EQ(stored(graph, 0).count("p"), 0U);
}

/// The squares are summed in parts of 1536, which go on from row to row of 2304.
TEST(FuseJoinProducts, SquaresOfAGradientAreSummedFromTheGradientItself) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {768, kDepth});
    const Tensor w = b.input(Role::User, "w", DType::BF16, {2304, kDepth});
    const Tensor p = b.input(Role::State, "p", DType::F32, {768, 2304});
    const Tensor gradient = b.cast(b.linear(x, w, std::nullopt), DType::F32);
    const Tensor squares = b.apply(Op::Mul, {gradient, gradient}, DType::F32);
    const Tensor norm = b.reduce(ReduceOp::Sum, squares, {0, 1}, false, DType::F32);
    const Tensor step = b.apply(Op::Mul, {gradient, norm}, DType::F32);
    b.update_state(p, b.apply(Op::Sub, {p, step}, DType::F32), "p");
    const RegionGraph graph = fused(b);
    const auto& product = std::get<MatMulRegion>(graph.regions.at(0).body);
    ASSERT_EQ(product.stores.size(), 1U);
    const auto& parts = std::get<ReduceRegion>(graph.regions.at(1).body);
    EXPECT_EQ(parts.space, (Shape{1152, 1536}));
    const Expr& term = parts.reductions.at(0).term;
    EXPECT_EQ(term.accesses.at(0).source, product.stores[0].target.source);
    EXPECT_EQ(term.accesses.at(0).type, DType::BF16);
}

TEST(FuseJoinProducts, AGradientIsNotRoundedOnItsWayToTheOptimizer) {
    GraphBuilder b;
    momentum(b, b.cast(product(b, DType::BF16), DType::F32), std::nullopt);
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    for (const Store& store : std::get<MatMulRegion>(graph.regions[0].body).stores) {
        for (const ExprNode& node : store.expr.nodes) EXPECT_NE(node.type, DType::BF16);
    }
}

/// A product whose results a map reads row by row, or column by column.
RegionGraph product_and_reader(bool by_row) {
    RegionGraph graph;
    const auto buffer = [&](const char* name, Shape shape, BufferRole role) {
        graph.buffers.push_back({name, DType::BF16, std::move(shape), role, nullptr});
        return static_cast<std::int32_t>(graph.buffers.size() - 1);
    };
    const auto x = buffer("x", {64, 64}, BufferRole::Input);
    const auto y = buffer("y", {64, 64}, BufferRole::Arena);
    const auto z = buffer("z", {64, 64}, BufferRole::Output);
    const auto over = [](std::int32_t source, const std::vector<Atom>& digits) {
        IndexMap map;
        for (const Atom& digit : digits) map.dims.push_back({digit});
        return Access{source, DType::BF16, std::move(map), {}};
    };
    MatMulRegion matmul;
    matmul.space = {1, 64, 64, 64};
    matmul.a.load(over(x, {atom(1, 0), atom(64, 64), atom(64, 0), atom(64, 1)}));
    matmul.weights = {over(x, {atom(1, 0), atom(64, 0), atom(64, 64), atom(64, 1)})};
    matmul.stores.push_back({over(y, {atom(1, 0), atom(64, 64), atom(64, 1), atom(64, 0)}), {}, {}});
    matmul.stores[0].expr.acc(0);
    graph.regions.push_back({"product", std::move(matmul)});
    MapRegion map{{64, 64}, {{over(z, {atom(64, 64), atom(64, 1)}), {}, {}}}};
    Expr& value = map.stores[0].expr;
    value.apply(Op::Neg, {value.load(over(y, {atom(64, by_row ? 64 : 1), atom(64, by_row ? 1 : 64)}))});
    graph.regions.push_back({"reader", std::move(map)});
    return graph;
}

TEST(FuseJoinProducts, AReaderJoinsOnlyWhereItReadsThePlacesThatItsPositionWrites) {
    RegionGraph same = product_and_reader(true);
    join_products(same);
    ASSERT_EQ(same.regions.size(), 1U);
    EXPECT_EQ(stored(same, 0), std::set<std::string>{"z"}) << "nobody else reads y";
    RegionGraph transposed = product_and_reader(false);
    join_products(transposed);
    EXPECT_EQ(transposed, product_and_reader(false));
}

}  // namespace
}  // namespace stretto
