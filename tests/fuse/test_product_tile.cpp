#include <gtest/gtest.h>

#include "fuse/fuse.h"
#include "fuse/narrow_product.h"
#include "fuse/product_kind.h"
#include "fuse/product_operand.h"
#include "fuse/product_tile.h"
#include "fuse/text.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

RegionGraph product(std::int64_t m, std::int64_t n, std::int64_t k, bool squared = false,
                    DType type = DType::BF16) {
    GraphBuilder b;
    Tensor x = b.input(Role::User, "x", type, {m, k});
    if (squared) x = b.apply(Op::Mul, {x, x}, type);
    b.output(b.linear(x, b.input(Role::Parameter, "w", type, {n, k}), std::nullopt), "y");
    return fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Fused);
}

const MatMulRegion& matmul(const RegionGraph& graph, std::size_t region) {
    return std::get<MatMulRegion>(graph.regions.at(region).body);
}

TEST(ProductTile, ManyRowsAreComputedInTilesAndFewAreStreamed) {
    const RegionGraph many = product(2048, 4096, 512);
    EXPECT_GE(matmul(many, 0).tile.rows, 64);
    EXPECT_FALSE(matmul(many, 0).streamed);
    const RegionGraph few = product(8, 4096, 512);
    EXPECT_EQ(matmul(few, 0).tile, ProductTile{});
    EXPECT_TRUE(matmul(few, 0).streamed);
}

TEST(ProductTile, FewExactResultsAreDealtToMoreWorkersThanTensorCoresWouldTake) {
    const ProductTile tile = matmul(product(64, 256, 256, false, DType::F32), 0).tile;
    const std::int64_t tasks = (64 / tile.rows) * (256 / tile.columns);
    EXPECT_GT(tasks, 132 / 3);
    EXPECT_LE(tasks, 132);
    EXPECT_GE(matmul(product(64, 256, 256), 0).tile.rows, 64);
    EXPECT_EQ(matmul(product(64, 256, 256, false, DType::F64), 0).tile, ProductTile{});
}

TEST(ProductTile, SmallBlocksHaveSeveralLinesARowWhereTheyDivideK) {
    const auto lines = [](std::int64_t k, ProductTile tile, DType type = DType::F32) {
        MatMulRegion region;
        region.space = {1, 64, 64, k};
        region.a_type = type;
        region.weights.resize(1);
        region.tile = tile;
        return row_lines(region);
    };
    EXPECT_EQ(lines(256, {16, 8, 6}), 4);
    EXPECT_EQ(lines(64, {16, 8, 6}), 2);
    EXPECT_EQ(lines(90, {16, 8, 6}), 1);
    EXPECT_EQ(lines(256, {32, 32, 6}), 2);
    EXPECT_EQ(lines(256, {128, 128, 6}), 1);
    EXPECT_EQ(lines(256, {64, 64, 6}, DType::BF16), 1);
}

TEST(ProductTile, WarpsThatCannotShareATileLeaveManyRowsToAnotherKind) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {64, 64});
    b.output(b.linear(x, b.input(Role::Parameter, "w", DType::BF16, {64, 64}), std::nullopt), "y");
    Machine machine = builtin_machine("h200");
    machine.consumer_warps = 11;
    EXPECT_EQ(matmul(fuse(simplify(b.finish()), machine, Numerics::Fused), 0).tile, ProductTile{});
}

TEST(ProductTile, ALeftSideOfManyRowsIsStoredFirst) {
    const RegionGraph graph = product(64, 64, 64, true);
    ASSERT_EQ(graph.regions.size(), 2U);
    EXPECT_TRUE(std::holds_alternative<MapRegion>(graph.regions[0].body));
    EXPECT_NE(plain_left_side(matmul(graph, 1)), nullptr);
    EXPECT_EQ(graph.buffers.at(static_cast<std::size_t>(matmul(graph, 1).a.accesses[0].source)).dtype,
              DType::BF16);
}

TEST(ProductTile, FewResultsOfLongSumsAreCutInPartsThatCoverK) {
    const RegionGraph graph = product(64, 128, 20000);
    ASSERT_EQ(graph.regions.size(), 3U);
    const MatMulRegion& parts = matmul(graph, 0);
    const MatMulRegion& rest = matmul(graph, 1);
    EXPECT_GT(parts.space[0], 1);
    EXPECT_EQ(parts.space[0] * parts.space[3] + rest.space[3], 20000);
    EXPECT_TRUE(std::holds_alternative<MapRegion>(graph.regions[2].body));
}

/// One row times a weight whose columns lie side by side, which is not streamed.
RegionGraph row_product(std::int64_t n, std::int64_t k, DType type) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", type, {1, k});
    b.output(b.matmul(x, b.input(Role::Parameter, "w", type, {k, n})), "y");
    return fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Fused);
}

TEST(ProductTile, LongRowsThatAreReadDirectlyAreCutInPartsForTheWorkers) {
    for (const DType type : {DType::BF16, DType::F32, DType::F64}) {
        const RegionGraph graph = row_product(768, 50257, type);
        ASSERT_EQ(graph.regions.size(), 3U);
        const MatMulRegion& parts = matmul(graph, 0);
        const MatMulRegion& rest = matmul(graph, 1);
        EXPECT_EQ(parts.space[0] * parts.space[3] + rest.space[3], 50257);
        const std::int64_t columns = parts.tile.columns > 0 ? parts.tile.columns : 32;
        const std::int64_t tasks = (parts.space[0] + rest.space[0]) * (768 / columns);
        EXPECT_GT(tasks, 132 * 4 / 5);
        EXPECT_LE(tasks, 132);
    }
}

TEST(ProductTile, PartsOfLongRowsFitASharedMemoryWhateverTheirNumber) {
    const RegionGraph graph = row_product(8192, 1'000'000, DType::F32);
    EXPECT_LE(matmul(graph, 0).space[3], 16384);
    EXPECT_EQ(row_product(64, 16384, DType::F64).regions.size(), 1U);
}

TEST(ProductTile, FewRowsReadWholePiecesOfWeightsThatLieInThem) {
    const auto wide = [](std::int64_t n, std::int64_t k, Atom along_n, Atom along_k, std::int32_t columns) {
        MatMulRegion region;
        region.space = {1, 2, n, k};
        region.a_type = DType::F32;
        region.weights = {{0, DType::F32, {{{atom(1, 0)}, {atom(2, 0)}, {along_n}, {along_k}}, 0}, {}}};
        region.tile.columns = columns;
        return wide_weights(region);
    };
    EXPECT_EQ(wide(40, 36, atom(40, 36), atom(36, 1), 0), (PlainOperand{false, 4}));
    EXPECT_EQ(wide(40, 36, atom(40, 1), atom(36, 40), 8), (PlainOperand{true, 4}));
    EXPECT_EQ(wide(40, 36, atom(40, 1), atom(36, 40), 0), std::nullopt) << "not cut";
    EXPECT_EQ(wide(37, 36, atom(37, 1), atom(36, 40), 8), std::nullopt) << "the last piece is no whole one";
    EXPECT_EQ(wide(40, 35, atom(40, 36), atom(35, 1), 0), std::nullopt) << "the last piece is no whole one";
}

TEST(ProductTile, ColumnsOfFewRowsAreDealtToMostWorkersUnlessTheirPiecesGetTooShort) {
    EXPECT_EQ(matmul(row_product(768, 768, DType::F32), 0).tile, (ProductTile{0, 8, 0}))
        << "96 tasks of whole sectors";
    const RegionGraph graph = row_product(768, 3072, DType::F32);
    EXPECT_GE(matmul(graph, 0).tile.columns, 32) << "whole lines, in parts of k";
    EXPECT_GT(graph.regions.size(), 1U);
    EXPECT_EQ(parse_region_graph(to_text(graph)), graph);
}

TEST(ProductTile, OperandsAreReadAsTheyLieInMemory) {
    const auto access = [](IndexMap map) { return Access{0, DType::BF16, std::move(map), {}}; };
    const Atom one = atom(1, 0);
    const auto lies = [&](const Atom& row, const Atom& k) {
        return plain_operand(access({{{one}, {row}, {one}, {k}}, 0}), 1);
    };
    EXPECT_EQ(lies(atom(100, 72), atom(72, 1)), (PlainOperand{false, 8}));
    EXPECT_EQ(lies(atom(100, 1), atom(72, 100)), (PlainOperand{true, 4}));
    EXPECT_EQ(lies(atom(100, 75), atom(75, 1)), (PlainOperand{false, 1}));
    EXPECT_EQ(lies(atom(100, 2), atom(72, 200)), (PlainOperand{false, 1}));
    EXPECT_EQ(lies(atom(100, 72), Atom{72, 1, 3, 72}), std::nullopt);
}

TEST(ProductTile, ARegionInTilesPrintsAndParsesBack) {
    const RegionGraph graph = product(2048, 4096, 512);
    EXPECT_EQ(parse_region_graph(to_text(graph)), graph);
}

}  // namespace
}  // namespace stretto
