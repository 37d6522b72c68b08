#include <gtest/gtest.h>

#include <algorithm>

#include "fuse/fused.h"
#include "support/decode_graph.h"

namespace stretto {
namespace {

TEST(FuseUpdates, AStateWhoseOldValueDiesIsUpdatedInPlace) {
    GraphBuilder b;
    const Tensor cache = b.input(Role::State, "cache", DType::F32, {32, kHidden});
    const Tensor row = b.input(Role::User, "row", DType::F32, {1, kHidden});
    const Tensor at = b.input(Role::User, "at", DType::I64, {1});
    const Tensor next = b.index_put(cache, {at, std::nullopt}, row);
    b.update_state(cache, next, "cache");
    b.output(b.reduce(ReduceOp::Sum, next, {0}, false, DType::F32), "sum");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 2U);
    const auto* map = std::get_if<MapRegion>(&graph.regions[0].body);
    ASSERT_NE(map, nullptr);
    EXPECT_EQ(volume(map->space), kHidden);
    EXPECT_EQ(target(graph, map->stores[0]).role, BufferRole::State);
}

TEST(FuseUpdates, AStateThatIsNotWrittenBackIsCopiedBeforeItChanges) {
    GraphBuilder b;
    const Tensor cache = b.input(Role::State, "cache", DType::F32, {32, kHidden});
    const Tensor row = b.input(Role::User, "row", DType::F32, {1, kHidden});
    const Tensor at = b.input(Role::User, "at", DType::I64, {1});
    b.output(b.index_put(cache, {at, std::nullopt}, row), "changed");
    const RegionGraph graph = fused(b);
    for (const auto* map : regions_of<MapRegion>(graph)) {
        EXPECT_NE(target(graph, map->stores[0]).role, BufferRole::State);
    }
}

TEST(FuseUpdates, TheOldStateIsReadBeforeItIsOverwritten) {
    GraphBuilder b;
    const Tensor count = b.input(Role::State, "count", DType::F32, {512});
    const Tensor next = b.apply(Op::Add, {count, number(b, 1)}, DType::F32);
    b.update_state(count, next, "count");
    b.output(b.reduce(ReduceOp::Sum, count, {0}, true, DType::F32), "old sum");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 2U);
    EXPECT_TRUE(std::holds_alternative<ReduceRegion>(graph.regions[0].body));
}

TEST(FuseUpdates, SmallUpdatesThatNobodyWaitsForGoBeforeTheLastStreamedProduct) {
    const RegionGraph graph = fuse(simplify(decode_graph(DecodeSizes{})), builtin_machine("h200"));
    std::vector<std::size_t> products;
    std::vector<std::size_t> updates;
    for (std::size_t r = 0; r < graph.regions.size(); ++r) {
        const auto* matmul = std::get_if<MatMulRegion>(&graph.regions[r].body);
        const auto* map = std::get_if<MapRegion>(&graph.regions[r].body);
        if (matmul != nullptr && matmul->streamed) products.push_back(r);
        if (map != nullptr && target(graph, map->stores[0]).role == BufferRole::State) updates.push_back(r);
    }
    ASSERT_EQ(updates.size(), 4U) << "keys and values of two layers";
    EXPECT_GT(updates.front(), products[products.size() - 2]);
    EXPECT_LT(updates.back(), products.back());
}

TEST(FuseUpdates, AShiftedUpdateOfAStateDoesNotReadWhatItWrites) {
    GraphBuilder b;
    const Tensor line = b.input(Role::State, "line", DType::F32, {512});
    const Tensor x = b.input(Role::User, "x", DType::F32, {1});
    b.update_state(line, b.concat({b.slice(line, 0, 1, 512), x}, 0), "line");
    const RegionGraph graph = fused(b);
    for (const Region& region : graph.regions) {
        bool reads = false;
        bool writes = false;
        for (const Use& use : uses(region)) {
            if (graph[BufferId(use.access->source)].name != "line") continue;
            (use.write ? writes : reads) = true;
        }
        EXPECT_FALSE(reads && writes) << region.name;
    }
}

TEST(FuseUpdates, AnInputThatIsAResultIsCopied) {
    GraphBuilder b;
    b.output(b.input(Role::User, "x", DType::F32, {5}), "y");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_EQ(target(graph, regions_of<MapRegion>(graph).at(0)->stores[0]).role, BufferRole::Output);
}

}  // namespace
}  // namespace stretto
