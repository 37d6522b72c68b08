#include <gtest/gtest.h>

#include <algorithm>

#include "fuse/fused.h"

namespace stretto {
namespace {

/// x / sqrt(mean(x^2) + eps) * gain
Tensor rms_norm(GraphBuilder& b, const Tensor& x, const Tensor& gain) {
    const Tensor wide = b.cast(x, DType::F32);
    const Tensor squares = b.apply(Op::Mul, {wide, wide}, DType::F32);
    const Tensor sum = b.reduce(ReduceOp::Sum, squares, {-1}, true, DType::F32);
    const Tensor mean = b.apply(Op::Div, {sum, number(b, kHidden)}, DType::F32);
    const Tensor scale =
        b.apply(Op::Rsqrt, {b.apply(Op::Add, {mean, number(b, 1e-5)}, DType::F32)}, DType::F32);
    const Tensor normal = b.cast(b.apply(Op::Mul, {wide, scale}, DType::F32), DType::BF16);
    return b.apply(Op::Mul, {normal, gain}, DType::BF16);
}

TEST(Fuse, ANormBeforeAProductBecomesItsPrologue) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor gain = b.input(Role::Parameter, "gain", DType::BF16, {kHidden});
    b.output(b.linear(rms_norm(b, x, gain), weight(b, "w", 32), std::nullopt), "y");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    const auto* matmul = regions_of<MatMulRegion>(graph).at(0);
    ASSERT_EQ(matmul->stats.size(), 1U);
    EXPECT_EQ(matmul->stats[0].finish.nodes.back().op, Op::Rsqrt);
    EXPECT_TRUE(matmul->streamed);
}

bool uses_stat(const Expr& expr) {
    return std::any_of(expr.nodes.begin(), expr.nodes.end(),
                       [](const ExprNode& node) { return node.op == Op::Stat; });
}

/// The product of a normalized row, in `type`.
MatMulRegion normalized(DType type, Numerics numerics, const char* machine = "h200") {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor gain = b.input(Role::Parameter, "gain", DType::BF16, {kHidden});
    const Tensor w = b.input(Role::Parameter, "w", type, {32, kHidden});
    b.output(b.linear(b.cast(rms_norm(b, x, gain), type), w, std::nullopt), "y");
    const RegionGraph graph = fused(b, numerics, machine);
    return *regions_of<MatMulRegion>(graph).at(0);
}

TEST(Fuse, WhatScalesWholeRowsScalesTheSums) {
    const MatMulRegion matmul = normalized(DType::BF16, Numerics::Fused);
    EXPECT_FALSE(uses_stat(matmul.a));
    EXPECT_TRUE(uses_stat(matmul.stores[0].expr));
}

TEST(Fuse, WorkersThatAreThreadsScaleTheLeftSide) {
    const MatMulRegion matmul = normalized(DType::BF16, Numerics::Fused, "cpu");
    EXPECT_TRUE(uses_stat(matmul.a));
    EXPECT_FALSE(uses_stat(matmul.stores[0].expr));
}

TEST(Fuse, ExactNumericsScaleTheLeftSide) {
    const MatMulRegion matmul = normalized(DType::BF16, Numerics::Exact);
    EXPECT_TRUE(uses_stat(matmul.a));
    EXPECT_FALSE(uses_stat(matmul.stores[0].expr));
}

TEST(Fuse, RowsThatMayExceedF16AreScaledBeforeTheProduct) {
    const MatMulRegion matmul = normalized(DType::F16, Numerics::Fused);
    EXPECT_TRUE(uses_stat(matmul.a));
    EXPECT_FALSE(uses_stat(matmul.stores[0].expr));
}

TEST(Fuse, AStatisticMayUseAnEarlierOne) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {2, kHidden});
    const Tensor count = number(b, kHidden);
    const Tensor mean =
        b.apply(Op::Div, {b.reduce(ReduceOp::Sum, x, {-1}, true, DType::F32), count}, DType::F32);
    const Tensor centred = b.apply(Op::Sub, {x, mean}, DType::F32);
    const Tensor squares = b.apply(Op::Mul, {centred, centred}, DType::F32);
    const Tensor spread =
        b.apply(Op::Rsqrt, {b.reduce(ReduceOp::Sum, squares, {-1}, true, DType::F32)}, DType::F32);
    const Tensor w = b.input(Role::Parameter, "w", DType::F32, {32, kHidden});
    b.output(b.linear(b.apply(Op::Mul, {centred, spread}, DType::F32), w, std::nullopt), "y");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_EQ(regions_of<MatMulRegion>(graph).at(0)->stats.size(), 2U);
}

TEST(Fuse, AResidualAddJoinsTheEpilogueAndTheProductAloneIsNotStored) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor sum = b.apply(Op::Add, {x, b.linear(x, weight(b, "w", kHidden), std::nullopt)}, DType::BF16);
    b.output(sum, "sum");
    b.output(b.linear(sum, weight(b, "v", 16), std::nullopt), "y");
    const RegionGraph graph = fused(b);
    const auto matmuls = regions_of<MatMulRegion>(graph);
    ASSERT_EQ(matmuls.size(), 2U);
    ASSERT_EQ(matmuls[0]->stores.size(), 1U);
    EXPECT_EQ(target(graph, matmuls[0]->stores[0]).name, "sum");
}

TEST(Fuse, ProductsOfOneLeftSideThatMeetElementForElementShareARegion) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor gate = b.linear(x, weight(b, "gate", 96), std::nullopt);
    const Tensor up = b.linear(x, weight(b, "up", 96), std::nullopt);
    const Tensor opened = b.apply(Op::Mul, {gate, b.apply(Op::Sigmoid, {gate}, DType::BF16)}, DType::BF16);
    b.output(b.apply(Op::Mul, {opened, up}, DType::BF16), "y");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    const auto* matmul = regions_of<MatMulRegion>(graph).at(0);
    EXPECT_EQ(matmul->weights.size(), 2U);
    EXPECT_EQ(matmul->stores.size(), 1U);
}

TEST(Fuse, AProductThatDependsOnAnotherKeepsItsOwnRegion) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor first = b.linear(x, weight(b, "first", kHidden), std::nullopt);
    const Tensor second = b.linear(first, weight(b, "second", kHidden), std::nullopt);
    b.output(b.apply(Op::Mul, {first, second}, DType::BF16), "y");
    EXPECT_EQ(regions_of<MatMulRegion>(fused(b)).size(), 2U);
}

TEST(Fuse, ProductsDoNotShareARegionThatWouldWaitForItself) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor first = b.linear(x, weight(b, "first", 96), std::nullopt);
    const Tensor second = b.linear(x, weight(b, "second", 96), std::nullopt);
    const Tensor largest = b.reduce(ReduceOp::Max, first, {-1}, true, DType::BF16);
    b.output(b.apply(Op::Add, {second, largest}, DType::BF16), "shifted");
    b.output(b.apply(Op::Mul, {first, second}, DType::BF16), "product");
    EXPECT_EQ(regions_of<MatMulRegion>(fused(b)).size(), 2U);
}

TEST(Fuse, TwoEpiloguesThatWaitForEachOthersProductsAreTakenApart) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor first = b.linear(x, weight(b, "first", 96), std::nullopt);
    const Tensor second = b.linear(x, weight(b, "second", 96), std::nullopt);
    const Tensor of_first = b.reduce(ReduceOp::Max, first, {-1}, true, DType::BF16);
    const Tensor of_second = b.reduce(ReduceOp::Max, second, {-1}, true, DType::BF16);
    b.output(b.apply(Op::Add, {second, of_first}, DType::BF16), "one");
    b.output(b.apply(Op::Add, {first, of_second}, DType::BF16), "other");
    EXPECT_EQ(fused(b).regions.size(), 5U);
}

/// `count` products in a row, each scaled by the cosine of an input.
RegionGraph scaled_products(int count) {
    GraphBuilder b;
    const Tensor angle = b.input(Role::User, "angle", DType::F32, {kHidden});
    const Tensor cosine = b.apply(Op::Cos, {angle}, DType::F32);
    Tensor x = b.input(Role::User, "x", DType::F32, {1, kHidden});
    for (int i = 0; i < count; ++i) {
        const Tensor w = b.input(Role::Parameter, "w" + std::to_string(i), DType::F32, {kHidden, kHidden});
        x = b.apply(Op::Mul, {b.linear(x, w, std::nullopt), cosine}, DType::F32);
    }
    b.output(x, "y");
    return fused(b);
}

TEST(Fuse, AnExpensiveValueOfInputsIsComputedOnceForManyReaders) {
    EXPECT_EQ(regions_of<MapRegion>(scaled_products(12)).size(), 1U);
}

TEST(Fuse, AnExpensiveValueOfInputsIsRecomputedByFewReaders) {
    EXPECT_EQ(regions_of<MapRegion>(scaled_products(2)).size(), 0U);
}

TEST(Fuse, AProductThatOthersReadIsNotStoredASecondTimeScaled) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor scale = b.input(Role::User, "scale", DType::BF16, {kHidden});
    const Tensor product = b.linear(x, weight(b, "w", kHidden), std::nullopt);
    const Tensor scaled = b.apply(Op::Mul, {product, scale}, DType::BF16);
    const Tensor reversed = b.concat({b.slice(product, -1, 32, 64), b.slice(product, -1, 0, 32)}, -1);
    b.output(b.linear(b.apply(Op::Add, {scaled, reversed}, DType::BF16), weight(b, "v", 16), std::nullopt),
             "y");
    const RegionGraph graph = fused(b);
    const auto matmuls = regions_of<MatMulRegion>(graph);
    ASSERT_EQ(matmuls.size(), 2U);
    EXPECT_EQ(matmuls[0]->stores.size(), 1U);
}

TEST(Fuse, AReductionThatIsAResultHasARegionOfItsOwn) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {8, kHidden});
    b.output(b.reduce(ReduceOp::Max, b.apply(Op::Abs, {x}, DType::F32), {1}, false, DType::F32), "largest");
    const RegionGraph graph = fused(b);
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_EQ(regions_of<ReduceRegion>(graph).at(0)->kept, 1);
}

TEST(Fuse, AMaskedContextIsBoundedByTheLengthThatTheMaskCompares) {
    GraphBuilder b;
    const Tensor q = b.input(Role::User, "q", DType::BF16, {1, 4, 1, 16});
    const Tensor k = b.input(Role::State, "k", DType::BF16, {1, 2, 256, 16});
    const Tensor v = b.input(Role::State, "v", DType::BF16, {1, 2, 256, 16});
    const Tensor position = b.input(Role::User, "position", DType::I64, {1});
    const Tensor rows = b.arange(256, 0, 1, DType::I64);
    const Tensor mask = b.reshape(b.apply(Op::Le, {rows, position}, DType::Bool), {1, 1, 1, 256});
    b.output(b.attention(q, k, v, mask, false, 0.25), "y");
    const RegionGraph graph = fused(b);
    const auto attentions = regions_of<AttentionRegion>(graph);
    ASSERT_EQ(attentions.size(), 1U);
    EXPECT_EQ(attentions[0]->group, 2);
    EXPECT_EQ(attentions[0]->splits, 1);
    ASSERT_FALSE(attentions[0]->length.empty());
    EXPECT_EQ(attentions[0]->length.nodes.back().op, Op::Add);
    EXPECT_TRUE(attentions[0]->mask.empty()) << "the length says all of it";
}

/// Attention of 32 heads over `context` rows of key heads, and the product that takes it.
RegionGraph attention_and_output(std::int64_t context, std::int64_t key_heads = 8) {
    GraphBuilder b;
    const Tensor q = b.input(Role::User, "q", DType::BF16, {1, 32, 1, 64});
    const Tensor k = b.input(Role::State, "k", DType::BF16, {1, key_heads, context, 64});
    const Tensor v = b.input(Role::State, "v", DType::BF16, {1, key_heads, context, 64});
    const Tensor attended = b.reshape(b.attention(q, k, v, std::nullopt, false, 0.125), {1, 2048});
    b.output(b.linear(attended, b.input(Role::Parameter, "o", DType::BF16, {2048, 2048}), std::nullopt), "y");
    return fused(b);
}

TEST(Fuse, ALongContextIsSplitAsFarAsRegistersHoldTheParts) {
    EXPECT_EQ(regions_of<AttentionRegion>(attention_and_output(32768)).at(0)->splits, 16)
        << "all workers have a part";
    EXPECT_EQ(regions_of<AttentionRegion>(attention_and_output(32768, 2)).at(0)->splits, 24);
}

TEST(Fuse, ManyPartsAreCombinedOnceAndFewByEachReader) {
    EXPECT_EQ(regions_of<MapRegion>(attention_and_output(8192)).size(), 1U);
    const RegionGraph few = attention_and_output(512);
    EXPECT_EQ(regions_of<AttentionRegion>(few).at(0)->splits, 4);
    EXPECT_TRUE(regions_of<MapRegion>(few).empty());
}

/// Attention over states of which this step writes row `at`: the keys from a product and a factor, the values from a
/// product.
struct CachedAttention {
    GraphBuilder b;
    Tensor keys;
    Tensor values;

    CachedAttention() {
        const Tensor x = b.input(Role::User, "x", DType::BF16, {1, 1, kHidden});
        const Tensor at = b.input(Role::User, "at", DType::I64, {1});
        const Tensor factor = b.input(Role::User, "factor", DType::BF16, {16});
        const auto heads = [&](const std::string& name, std::int64_t count) {
            const Tensor y = b.linear(x, weight(b, name, count * 16), std::nullopt);
            return b.transpose(b.reshape(y, {1, 1, count, 16}), 1, 2);
        };
        const auto updated = [&](const std::string& name, const Tensor& row) {
            const Tensor state = b.input(Role::State, name, DType::BF16, {1, 2, 128, 16});
            const Tensor next = b.index_put(state, {std::nullopt, std::nullopt, at}, row);
            b.update_state(state, next, name);
            return next;
        };
        const Tensor query = heads("q", 4);
        keys = updated("keys", b.apply(Op::Mul, {heads("k", 2), factor}, DType::BF16));
        values = updated("values", heads("v", 2));
        b.output(b.attention(query, keys, values, std::nullopt, false, 0.25), "y");
    }
};

TEST(Fuse, AttentionTakesTheRowThatItsStatesGetInThisStepDirectly) {
    CachedAttention test;
    const RegionGraph graph = fused(test.b);
    const auto attentions = regions_of<AttentionRegion>(graph);
    ASSERT_EQ(attentions.size(), 1U);
    EXPECT_FALSE(attentions[0]->fresh.row.empty());
    EXPECT_FALSE(attentions[0]->fresh.key.empty());
    EXPECT_FALSE(attentions[0]->fresh.value.empty());
    bool attended = false;
    for (const Region& region : graph.regions) {
        if (std::holds_alternative<AttentionRegion>(region.body)) attended = true;
        for (const Use& use : uses(region)) {
            if (!use.write || graph[BufferId(use.access->source)].role != BufferRole::State) continue;
            EXPECT_TRUE(attended) << region.name << " would hold up the attention";
        }
    }
}

TEST(Fuse, AStateThatOthersReadTooIsWrittenBeforeTheAttention) {
    CachedAttention test;
    test.b.output(test.b.reduce(ReduceOp::Sum, test.keys, {2}, false, DType::BF16), "sum");
    const RegionGraph graph = fused(test.b);
    const auto* attention = regions_of<AttentionRegion>(graph).at(0);
    EXPECT_TRUE(attention->fresh.key.empty());
    EXPECT_FALSE(attention->fresh.value.empty());
}

/// x + linear(x), which a second product normalizes: computed with, so worth its full precision.
RegionGraph residual(Numerics numerics) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {1, kHidden});
    const Tensor sum = b.apply(Op::Add, {x, b.linear(x, weight(b, "w", kHidden), std::nullopt)}, DType::BF16);
    const Tensor gain = b.input(Role::Parameter, "gain", DType::BF16, {kHidden});
    b.output(b.linear(rms_norm(b, sum, gain), weight(b, "v", 16), std::nullopt), "y");
    return fused(b, numerics);
}

DType intermediate_type(const RegionGraph& graph) {
    for (const Buffer& buffer : graph.buffers) {
        if (buffer.role == BufferRole::Arena) return buffer.dtype;
    }
    return DType::Bool;
}

TEST(Fuse, ASmallIntermediateThatIsComputedWithStaysWide) {
    EXPECT_EQ(intermediate_type(residual(Numerics::Fused)), DType::F32);
}

TEST(Fuse, ExactNumericsKeepsEveryRounding) {
    EXPECT_EQ(intermediate_type(residual(Numerics::Exact)), DType::BF16);
}

}  // namespace
}  // namespace stretto
