#include <gtest/gtest.h>

#include "fuse/fuse.h"
#include "fuse/left_shares.h"
#include "graph/builder.h"
#include "tile/tile.h"

namespace stretto {
namespace {

RegionGraph product(std::int64_t rows, std::int64_t n, std::int64_t k) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {rows, k});
    b.output(b.linear(x, b.input(Role::Parameter, "w", DType::BF16, {n, k}), std::nullopt), "y");
    return fuse(b.finish(), builtin_machine("h200"), Numerics::Fused);
}

LeftShares shares_of(std::int64_t rows, std::int64_t k, std::int64_t warps = 8) {
    const RegionGraph graph = product(rows, 4096, k);
    return left_shares(graph, std::get<MatMulRegion>(graph.regions.at(0).body), warps);
}

TEST(LeftShares, AllWarpsStageASingleRow) { EXPECT_EQ(shares_of(1, 2048).row_warps, 8); }

TEST(LeftShares, RowsShareTheWarps) {
    EXPECT_EQ(shares_of(2, 2048).row_warps, 4);
    EXPECT_EQ(shares_of(3, 2048).row_warps, 2);
    EXPECT_EQ(shares_of(8, 2048).row_warps, 1);
    EXPECT_EQ(shares_of(8, 2048, 15).row_warps, 1);
    EXPECT_EQ(shares_of(12, 2048).row_warps, 1);
}

TEST(LeftShares, NeighboursFillAnAccessWhereEveryThreadHasSome) {
    EXPECT_EQ(shares_of(1, 2048).width, 8);
    EXPECT_EQ(shares_of(8, 8192).width, 8);
}

TEST(LeftShares, WordsAreAskedForAsManyAsOneAccessMoves) {
    RegionGraph graph = product(1, 4096, 2048);
    const auto& matmul = std::get<MatMulRegion>(graph.regions.at(0).body);
    graph.buffers.at(static_cast<std::size_t>(matmul.a.accesses.at(0).source)).tagged = true;
    EXPECT_EQ(left_shares(graph, matmul, 8).width, 2);
    graph.buffers.at(static_cast<std::size_t>(matmul.a.accesses.at(0).source)).packed = true;
    EXPECT_EQ(left_shares(graph, matmul, 8).width, 4);
}

TEST(LeftShares, ShortRowsAreSpreadOverMoreThreads) {
    EXPECT_EQ(shares_of(1, 1536).width, 2);
    EXPECT_EQ(shares_of(1, 576).width, 4);
}

TEST(LeftShares, SmallLeftSidesAreStagedAsAWhole) {
    EXPECT_EQ(shares_of(1, 16384).depth, 16384);
    EXPECT_EQ(shares_of(8, 4096).depth, 4096);
}

TEST(LeftShares, PartsOfALargeLeftSideAreWholePiecesOfAPanel) {
    EXPECT_EQ(shares_of(8, 8192).depth, 2048);
    EXPECT_EQ(shares_of(8, 4864).depth, 2048);
}

TEST(LeftShares, TasksOfPartsHoldTheSumsOfAllTheirPanels) {
    const std::int64_t columns = 1 << 18;
    const TaskGraph tasks = tile(product(8, columns, 8192), builtin_machine("h200"));
    const std::int64_t most = most_panels(std::get<MatMulRegion>(tasks.regions.regions.at(0).body), 8);
    EXPECT_GT(tasks.tasks.size(), 132U);
    for (const Task& task : tasks.tasks) EXPECT_LE(task.tile[2].size(), most * 8);
}

TEST(LeftShares, OddRowsAreStagedElementByElement) { EXPECT_EQ(shares_of(1, 2047).width, 1); }

}  // namespace
}  // namespace stretto
