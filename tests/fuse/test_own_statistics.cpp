#include <gtest/gtest.h>

#include <algorithm>

#include "fuse/fuse.h"
#include "fuse/own_statistics.h"
#include "fuse/text.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

constexpr std::int64_t kWidth = 64;

/// A layer norm of a product's rows without scale, and the product of what it gives; others read the normalized rows, or not.
Graph normalized_product(std::int64_t rows, bool others) {
    GraphBuilder b;
    const auto weight = [&](const char* name) {
        return b.input(Role::Parameter, name, DType::F32, {kWidth, kWidth});
    };
    const auto row_sum = [&](const Tensor& of) { return b.reduce(ReduceOp::Sum, of, {1}, true, DType::F32); };
    const Tensor count = b.full({1}, static_cast<double>(kWidth), DType::F32);
    const Tensor x =
        b.linear(b.input(Role::User, "x", DType::F32, {rows, kWidth}), weight("w"), std::nullopt);
    const Tensor far = b.apply(Op::Sub, {x, b.apply(Op::Div, {row_sum(x), count}, DType::F32)}, DType::F32);
    const Tensor squares = row_sum(b.apply(Op::Mul, {far, far}, DType::F32));
    const Tensor scale = b.apply(Op::Rsqrt, {b.apply(Op::Div, {squares, count}, DType::F32)}, DType::F32);
    const Tensor normalized = b.apply(Op::Mul, {far, scale}, DType::F32);
    b.output(b.linear(normalized, weight("v"), std::nullopt), "y");
    if (others) b.output(b.apply(Op::Mul, {normalized, normalized}, DType::F32), "other");
    return simplify(b.finish());
}

std::size_t count_reductions(const Graph& graph) {
    return static_cast<std::size_t>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(),
                      [](const Node& node) { return std::holds_alternative<Reduce>(node.op); }));
}

TEST(OwnStatistics, AProductSumsTheRowsThatOthersNeedSummed) {
    const Graph graph = normalized_product(1, true);
    EXPECT_EQ(count_reductions(graph), 2U);
    EXPECT_EQ(count_reductions(with_own_statistics(graph)), 4U);
    const RegionGraph regions = fuse(graph, builtin_machine("h200"));
    const auto last = std::find_if(regions.regions.begin(), regions.regions.end(), [](const Region& region) {
        const auto* product = std::get_if<MatMulRegion>(&region.body);
        return product != nullptr && !product->stats.empty();
    });
    ASSERT_NE(last, regions.regions.end()) << to_text(regions);
    EXPECT_EQ(std::get<MatMulRegion>(last->body).stats.size(), 2U);
    for (const Use& use : uses(*last)) {
        const Buffer& buffer = regions.buffers[static_cast<std::size_t>(use.access->source)];
        EXPECT_TRUE(buffer.role != BufferRole::Arena || volume(buffer.shape) == kWidth)
            << "it waits for a statistic: " << buffer.name;
    }
}

/// A normalized row as the query of an attention, in so many parts (0: prepare decides).
Graph normalized_query(std::int64_t parts) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {1, kWidth});
    const Tensor rows = b.input(Role::Parameter, "rows", DType::F32, {1, 1, 300, kWidth});
    const Tensor squares = b.apply(Op::Mul, {x, x}, DType::F32);
    const Tensor sum = b.reduce(ReduceOp::Sum, squares, {1}, true, DType::F32);
    const Tensor normalized = b.apply(Op::Div, {x, sum}, DType::F32);
    b.output(b.attention(b.reshape(normalized, {1, 1, 1, kWidth}), rows, rows, std::nullopt, false, 1), "y");
    b.output(b.apply(Op::Mul, {normalized, normalized}, DType::F32), "other");
    Graph graph = simplify(b.finish());
    for (Node& node : graph.nodes) {
        auto* attention = std::get_if<Attention>(&node.op);
        if (attention == nullptr || parts == 0) continue;
        attention->splits = parts;
        node.type.shape = {parts, 1, 1, 1, kWidth + 2};
    }
    check(graph);
    return graph;
}

TEST(OwnStatistics, AnAttentionInPartsHasTheSumsOfItsQueryForItself) {
    EXPECT_EQ(count_reductions(with_own_statistics(normalized_query(2))), 2U);
    EXPECT_EQ(with_own_statistics(normalized_query(0)), normalized_query(0));
}

TEST(OwnStatistics, StatisticsThatNobodyElseReadsStayOne) {
    const Graph graph = normalized_product(1, false);
    EXPECT_EQ(with_own_statistics(graph), graph);
}

TEST(OwnStatistics, ManyRowsAreSummedOnce) {
    const Graph graph = normalized_product(9, true);
    EXPECT_EQ(with_own_statistics(graph), graph);
}

TEST(OwnStatistics, StatisticsThatAreThereEarlierAreRead) {
    GraphBuilder b;
    const Tensor weight = b.input(Role::Parameter, "w", DType::F32, {kWidth, kWidth});
    const Tensor early = b.linear(b.input(Role::User, "x", DType::F32, {1, kWidth}), weight, std::nullopt);
    const Tensor sum = b.reduce(ReduceOp::Sum, early, {1}, true, DType::F32);
    const Tensor late = b.linear(early, weight, std::nullopt);
    const Tensor scaled = b.apply(Op::Mul, {late, sum}, DType::F32);
    b.output(b.linear(scaled, weight, std::nullopt), "y");
    b.output(sum, "sum");
    const Graph graph = simplify(b.finish());
    EXPECT_EQ(with_own_statistics(graph), graph);
}

}  // namespace
}  // namespace stretto
