#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fuse/band.h"
#include "fuse/fuse.h"
#include "fuse/scored.h"
#include "fuse/scored_weights.h"
#include "graph/builder.h"
#include "simplify/simplify.h"
#include "support/attention_graph.h"

namespace stretto {
namespace {

constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kRows = 512;
constexpr std::int64_t kDepth = 64;
constexpr std::int64_t kScores = kHeads * kRows * kRows;

/// Causal attention as a program writes it by hand: two products, and a softmax between them.
struct Attention {
    GraphBuilder b;
    Tensor value;
    Tensor scores;
    Tensor weights;
    Tensor out;

    explicit Attention(std::int64_t heads = kHeads, std::int64_t depth = kDepth, DType type = DType::BF16) {
        const auto operand = [&](const char* name) {
            return b.input(Role::User, name, type, {heads, kRows, depth});
        };
        const Tensor query = operand("query"), key = operand("key");
        value = operand("value");
        scores = b.matmul(query, b.transpose(key, 1, 2));
        const Tensor row = b.unsqueeze(b.arange(kRows, 0, 1, DType::I64), 1);
        const Tensor seen = b.apply(Op::Le, {b.arange(kRows, 0, 1, DType::I64), row}, DType::Bool);
        const Tensor hidden = b.full({1}, -3.4e38, DType::F32);
        const Tensor visible = b.apply(Op::Select, {seen, b.cast(scores, DType::F32), hidden}, DType::F32);
        weights = b.cast(b.softmax(visible, -1, DType::F32), type);
        out = b.matmul(weights, value);
        b.output(out, "out");
    }

    RegionGraph fused(const char* machine = "h200", Numerics numerics = Numerics::Fused) {
        return fuse(simplify(b.finish()), builtin_machine(machine), numerics);
    }
};

std::vector<ScoredRegion> scored(const RegionGraph& graph) {
    std::vector<ScoredRegion> found;
    for (const Region& region : graph.regions) {
        if (const auto* body = std::get_if<ScoredRegion>(&region.body)) found.push_back(*body);
    }
    return found;
}

bool stores_scores(const RegionGraph& graph) {
    return std::any_of(graph.buffers.begin(), graph.buffers.end(),
                       [](const Buffer& buffer) { return volume(buffer.shape) >= kScores; });
}

TEST(Scored, AttentionWrittenAsProductsStoresNothingAsLargeAsItsScores) {
    const RegionGraph graph = Attention().fused();
    EXPECT_FALSE(stores_scores(graph));
    EXPECT_EQ(scored(graph).size(), graph.regions.size());
}

TEST(Scored, ASoftmaxAndItsMixAreOneRegionThatStoresTheMixAlone) {
    const RegionGraph graph = Attention().fused();
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_TRUE(scored(graph).front().softmax);
    EXPECT_TRUE(scored(graph).front().row_stores.empty());
}

TEST(Scored, ASoftmaxWhoseWeightsAreSeenElsewhereStoresItsStatistics) {
    Attention attention;
    attention.b.output(attention.b.reduce(ReduceOp::Sum, attention.weights, {1}, false, DType::F32),
                       "columns");
    const auto regions = scored(attention.fused());
    ASSERT_EQ(regions.size(), 2U);
    EXPECT_EQ(regions[0].row_stores.size(), 2U);
    EXPECT_FALSE(regions[1].softmax);
}

TEST(Scored, ACausalMaskEndsTheContextAtTheRow) {
    for (const ScoredRegion& region : scored(Attention().fused())) {
        EXPECT_EQ(region.band, (Range{1 - kRows, 1}));
        EXPECT_EQ(scored_context(region, {128, 192}), (Range{0, 192}));
    }
}

bool has(const Expr& expr, Op op) {
    return std::any_of(expr.nodes.begin(), expr.nodes.end(),
                       [op](const ExprNode& node) { return node.op == op; });
}

TEST(Scored, WithinItsBandAMaskComparesNothing) {
    const auto regions = scored(Attention().fused());
    ASSERT_EQ(regions.size(), 1U);
    EXPECT_TRUE(has(quick_weights(regions[0], false).expr, Op::Select));
    const Expr within = quick_weights(regions[0], true).expr;
    EXPECT_FALSE(has(within, Op::Le) || has(within, Op::Select));
    EXPECT_TRUE(has(within, Op::Acc));
}

TEST(Scored, ComparisonsThatOnlyPartOfTheBandPassesStay) {
    Expr seen;
    const std::int32_t row = seen.index(kScoredRow), position = seen.index(kScoredContext);
    const std::int32_t before = seen.apply(Op::Le, DType::Bool, {position, row});
    const std::int32_t first = seen.apply(Op::Sub, {row, seen.constant(20, DType::I64)});
    const std::int32_t window = seen.apply(Op::Lt, DType::Bool, {first, position});
    seen.apply(Op::And, DType::Bool, {before, window});
    const Shape space{1, kRows, 1, kRows, 1};
    EXPECT_EQ(within_band(seen, {-19, 1}, space).nodes.back().op, Op::Const);
    EXPECT_EQ(within_band(seen, {-20, 1}, space).nodes.back().op, Op::Lt);
    EXPECT_EQ(within_band(seen, {-19, 2}, space).nodes.back().op, Op::Le);
    EXPECT_EQ(within_band(seen, {-20, 2}, space).nodes.back().op, Op::And);
}

TEST(Scored, DivisorsThatRowsOrPositionsShareBecomeReciprocalsAndCommonFactorsAreDrawnOut) {
    const Graph graph = attention_gradients({.heads = 16, .key_heads = 16, .rows = kRows, .depth = kDepth});
    int backward = 0;
    for (const ScoredRegion& region :
         scored(fuse(simplify(graph), builtin_machine("h200"), Numerics::Fused))) {
        if (!has(region.sums.front().weight, Op::Div)) continue;
        ++backward;
        const Expr everywhere = quick_weights(region, false).expr;
        EXPECT_TRUE(has(everywhere, Op::Select));
        for (std::size_t i = 0; i < everywhere.nodes.size(); ++i) {
            const bool hides = has(extracted(everywhere, static_cast<std::int32_t>(i)), Op::Select);
            EXPECT_FALSE(everywhere.nodes[i].op == Op::Exp && hides) << "shared: that of a hidden score";
        }
        const Expr quick = quick_weights(region, true).expr;
        EXPECT_FALSE(has(quick, Op::Div));
        EXPECT_TRUE(has(quick, Op::Recip));
        // p (dP - delta) / sqrt(depth) is one product of p, with a difference that is one of a score and what rows share.
        const std::vector<std::int32_t> nodes = quick_weights(region, true).nodes;
        const ExprNode& derivative = quick.nodes[static_cast<std::size_t>(nodes.back())];
        ASSERT_EQ(derivative.op, Op::Mul);
        const ExprNode& difference = quick.nodes[static_cast<std::size_t>(derivative.args[0])];
        ASSERT_EQ(difference.op, Op::Sub);
        EXPECT_TRUE(has(extracted(quick, difference.args[0]), Op::Acc));
        EXPECT_FALSE(has(extracted(quick, difference.args[1]), Op::Acc));
    }
    EXPECT_EQ(backward, 2) << "dQ, and dV with dK";
}

TEST(Scored, ScoresThatTheCallerWantsAreStored) {
    Attention attention;
    attention.b.output(attention.scores, "scores");
    EXPECT_TRUE(scored(attention.fused()).empty());
}

TEST(Scored, ScoresThatAreNotSummedAreStored) {
    Attention attention;
    Tensor& scores = attention.scores;
    attention.b.output(attention.b.cumsum(scores, 2, DType::F32), "sums");
    EXPECT_TRUE(stores_scores(attention.fused()));
}

TEST(Scored, ScoresOfFewRowsAreStoredSoThatAllWorkersHaveWork) {
    EXPECT_TRUE(scored(Attention(2).fused()).empty());
}

TEST(Scored, DeepScoresAreStored) { EXPECT_TRUE(scored(Attention(kHeads, 256).fused()).empty()); }

TEST(Scored, ScoresOfWideTypesAreStored) {
    EXPECT_TRUE(scored(Attention(kHeads, kDepth, DType::F32).fused()).empty());
}

TEST(Scored, TheGradientOfTheRightSideTakesItsRowsFromTheContext) {
    Attention attention;
    GraphBuilder& b = attention.b;
    const Tensor gradient = b.input(Role::User, "gradient", DType::BF16, {kHeads, kRows, kDepth});
    const Tensor squares = b.apply(Op::Mul, {attention.scores, attention.scores}, DType::BF16);
    b.output(b.matmul(b.transpose(squares, 1, 2), gradient), "right");
    b.output(b.matmul(b.transpose(gradient, 1, 2), squares), "exchanged");
    const RegionGraph graph = attention.fused();
    EXPECT_FALSE(stores_scores(graph));
    const auto regions = scored(graph);
    ASSERT_FALSE(regions.empty());
    const ScoredRegion& both = regions.back();
    ASSERT_EQ(both.sums.size(), 2U) << "of the same squares";
    EXPECT_EQ(both.space, (std::array<std::int64_t, 5>{kHeads, kRows, kDepth, kRows, kDepth}));
    EXPECT_EQ(both.band, (Range{1 - kRows, kRows}));
}

/// The row sums of weights and the gradient of the mix's weights: those of the backward pass of a softmax.
struct RowSums : Attention {
    Tensor gradient = b.input(Role::User, "gradient", DType::BF16, {kHeads, kRows, kDepth});
    Tensor d_weights = b.cast(b.matmul(gradient, b.transpose(value, 1, 2)), DType::F32);

    void sum(const Tensor& terms) {
        b.output(b.reduce(ReduceOp::Sum, terms, {2}, false, DType::F32), "sums");
    }
    Tensor product(const Tensor& x, const Tensor& y) { return b.apply(Op::Mul, {x, y}, DType::F32); }
};

/// The reduction over rows of `kDepth` elements; nullptr where there is none.
const ReduceRegion* rows_of_depth(const RegionGraph& graph) {
    for (const Region& region : graph.regions) {
        const auto* reduce = std::get_if<ReduceRegion>(&region.body);
        if (reduce != nullptr && reduce->space == Shape{kHeads, kRows, kDepth}) return reduce;
    }
    return nullptr;
}

TEST(Scored, RowSumsOfASoftmaxsGradientAreThoseOfItsMix) {
    RowSums program;
    program.sum(program.product(program.d_weights, program.weights));
    const RegionGraph graph = program.fused();
    ASSERT_NE(rows_of_depth(graph), nullptr);
    EXPECT_EQ(graph.regions.size(), 2U) << "the mix, and the sums of its rows";
    const ReduceRegion& sums = *rows_of_depth(graph);
    EXPECT_EQ(sums.kept, 2);
    const Expr& term = sums.reductions.at(0).term;
    ASSERT_EQ(term.accesses.size(), 2U);
    EXPECT_EQ(graph.buffers[static_cast<std::size_t>(term.accesses[0].source)].name, "gradient");
    EXPECT_EQ(graph.buffers[static_cast<std::size_t>(term.accesses[1].source)].name, "out");
}

TEST(Scored, RowSumsWhoseWeightsAreOthersThanTheMixsAreComputed) {
    RowSums program;
    program.sum(program.product(program.d_weights, program.product(program.weights, program.weights)));
    EXPECT_EQ(rows_of_depth(program.fused()), nullptr);
}

TEST(Scored, RowSumsOfSquaresOfTheGradientAreComputed) {
    RowSums program;
    const Tensor squares = program.product(program.d_weights, program.d_weights);
    program.sum(program.product(squares, program.weights));
    EXPECT_EQ(rows_of_depth(program.fused()), nullptr);
}

TEST(Scored, WhatScalesRowSumsByRowsComesAfterThem) {
    RowSums program;
    const Tensor scale = program.b.input(Role::User, "scale", DType::F32, {kHeads, kRows, 1});
    const Tensor halves = program.product(program.d_weights, program.b.full({1}, 0.5, DType::F32));
    program.sum(program.product(program.product(halves, scale), program.weights));
    const RegionGraph graph = program.fused();
    ASSERT_NE(rows_of_depth(graph), nullptr);
    EXPECT_EQ(rows_of_depth(graph)->reductions.at(0).term.accesses.size(), 2U);
    ASSERT_EQ(rows_of_depth(graph)->stores.size(), 1U);
    const Expr& stored = rows_of_depth(graph)->stores.front().expr;
    ASSERT_EQ(stored.accesses.size(), 1U);
    EXPECT_EQ(graph.buffers[static_cast<std::size_t>(stored.accesses[0].source)].name, "scale");
    EXPECT_TRUE(std::any_of(stored.nodes.begin(), stored.nodes.end(),
                            [](const ExprNode& node) { return node.op == Op::Const && node.value == 0.5; }));
}

TEST(Scored, WhatScalesRowSumsByPositionsKeepsThem) {
    RowSums program;
    const Tensor scale = program.b.input(Role::User, "scale", DType::F32, {kHeads, 1, kRows});
    program.sum(program.product(program.product(program.d_weights, scale), program.weights));
    EXPECT_EQ(rows_of_depth(program.fused()), nullptr);
}

TEST(Scored, ExactNumericsKeepRowSums) {
    RowSums program;
    program.sum(program.product(program.d_weights, program.weights));
    EXPECT_EQ(rows_of_depth(program.fused("h200", Numerics::Exact)), nullptr);
}

RegionGraph fused_gradients(const AttentionSizes& sizes) {
    return fuse(simplify(attention_gradients(sizes)), builtin_machine("h200"), Numerics::Fused);
}

/// Products of as many results as there are scores.
std::size_t products(const ScoredRegion& region) {
    return region.scores.size() + (region.sums.front().factor ? region.sums.size() : 0);
}

TEST(Scored, TheGradientsOfKeysAndValuesAreOneRegion) {
    const auto regions =
        scored(fused_gradients({.heads = kHeads, .key_heads = 4, .rows = kRows, .depth = kDepth}));
    ASSERT_EQ(regions.size(), 3U) << "the mix, keys with values, queries";
    EXPECT_EQ(products(regions[0]), 2U);
    const ScoredRegion& both = products(regions[1]) == 4 ? regions[1] : regions[2];
    EXPECT_EQ(both.scores.size(), 2U);
    EXPECT_EQ(both.sums.size(), 2U);
    EXPECT_EQ(both.stores.size(), 2U);
    EXPECT_EQ(products(regions[1]) + products(regions[2]), 7U);
}

TEST(Scored, SumsStoredInColumnsAreLaidOutInRows) {
    const RegionGraph graph =
        fused_gradients({.heads = kHeads, .key_heads = 4, .rows = kRows, .depth = kDepth});
    int arena = 0;
    for (const ScoredRegion& region : scored(graph)) {
        for (const Store& store : region.stores) {
            const Buffer& buffer = graph.buffers[static_cast<std::size_t>(store.target.source)];
            if (buffer.role != BufferRole::Arena) continue;
            ++arena;
            EXPECT_EQ(buffer.shape, (Shape{kHeads, kRows, kDepth})) << buffer.name;
            EXPECT_EQ(store.target.map.dims[2], std::vector<Atom>{atom(kDepth, 1)}) << buffer.name;
        }
    }
    EXPECT_EQ(arena, 2) << "the gradients of keys and values, before heads that share one are added";
}

TEST(Scored, FactorsThatAreRightSidesAreStagedOnce) {
    for (const ScoredRegion& region :
         scored(fused_gradients({.heads = kHeads, .key_heads = kHeads, .rows = kRows, .depth = kDepth}))) {
        const std::int64_t staged = region.softmax ? 1 : 0;  // values; queries, keys and gradients are sides
        EXPECT_EQ(scored_shape(region).factors, staged);
    }
}

TEST(Scored, SumsOfWideHeadsStayApartForTheirRegisters) {
    const auto regions =
        scored(fused_gradients({.heads = kHeads, .key_heads = kHeads, .rows = kRows, .depth = 128}));
    EXPECT_EQ(regions.size(), 4U);
    for (const ScoredRegion& region : regions) EXPECT_EQ(region.sums.size(), 1U);
}

TEST(Scored, SumsOfWhichOneNeedsTheOtherStayApart) {
    Attention attention;
    GraphBuilder& b = attention.b;
    const Tensor gradient = b.input(Role::User, "gradient", DType::BF16, {kHeads, kRows, kDepth});
    const Tensor right = b.matmul(b.transpose(attention.weights, 1, 2), gradient);
    b.output(b.matmul(b.transpose(attention.weights, 1, 2), right), "twice");
    const auto regions = scored(attention.fused());
    ASSERT_EQ(regions.size(), 3U);
    for (const ScoredRegion& region : regions) EXPECT_EQ(region.sums.size(), 1U);
}

class Band : public testing::Test {
protected:
    Expr e;
    const Shape space{1, 80, 1, 80};
    const Range all{-79, 80};

    std::int32_t row() { return e.index(1); }
    std::int32_t context() { return e.index(3); }
    std::int32_t number(double value) { return e.constant(value, DType::I64); }
    std::int32_t zero() { return e.constant(0, DType::F32); }
    std::int32_t only_where(std::int32_t condition) {
        return e.apply(Op::Select, DType::F32, {condition, e.acc(0), zero()});
    }
    [[nodiscard]] Range found(Counts counts = Counts::NonZero) const { return band_of(e, counts, space); }
};

TEST_F(Band, IsEverythingWithoutAMask) {
    e.acc(0);
    EXPECT_EQ(found(), all);
}

TEST_F(Band, OfAWindowBeginsBeforeTheRow) {
    const auto near = e.apply(Op::Lt, DType::Bool, {e.apply(Op::Sub, {row(), number(7)}), context()});
    only_where(e.apply(Op::And, {near, e.apply(Op::Le, DType::Bool, {context(), row()})}));
    EXPECT_EQ(found(), (Range{-6, 1}));
}

TEST_F(Band, OfADifferenceCoversBothTerms) {
    const auto before = only_where(e.apply(Op::Lt, DType::Bool, {context(), row()}));
    const auto at = only_where(e.apply(Op::Le, DType::Bool, {context(), row()}));
    e.apply(Op::Sub, {before, at});
    EXPECT_EQ(found(), (Range{-79, 1}));
}

TEST_F(Band, OfAnExponentialIsWhereItsArgumentIsNotHidden) {
    const auto seen = e.apply(Op::Le, DType::Bool, {row(), context()});
    const auto score = e.apply(Op::Select, DType::F32, {seen, e.acc(0), e.constant(-1e38, DType::F32)});
    EXPECT_EQ(found(Counts::Visible), (Range{0, 80}));
    e.apply(Op::Exp, {e.apply(Op::Sub, {score, e.acc(1)})});
    EXPECT_EQ(found(), (Range{0, 80}));
}

TEST_F(Band, LeavesEveryRowAPosition) {
    only_where(e.apply(Op::Le, DType::Bool, {row(), context()}));
    EXPECT_EQ(band_of(e, Counts::NonZero, {1, 100, 1, 80}), (Range{-99, 80}))
        << "rows from 80 on see nothing";
}

}  // namespace
}  // namespace stretto
