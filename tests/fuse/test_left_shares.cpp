#include <gtest/gtest.h>

#include "fuse/fuse.h"
#include "fuse/left_shares.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

LeftShares shares_of(std::int64_t rows, std::int64_t k, std::int64_t warps = 8) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {rows, k});
    b.output(b.linear(x, b.input(Role::Parameter, "w", DType::BF16, {4096, k}), std::nullopt), "y");
    const RegionGraph graph = fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Fused);
    return left_shares(std::get<MatMulRegion>(graph.regions.at(0).body), warps);
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

TEST(LeftShares, ShortRowsAreSpreadOverMoreThreads) {
    EXPECT_EQ(shares_of(1, 1536).width, 2);
    EXPECT_EQ(shares_of(1, 576).width, 4);
}

TEST(LeftShares, OddRowsAreStagedElementByElement) { EXPECT_EQ(shares_of(1, 2047).width, 1); }

}  // namespace
}  // namespace stretto
