#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fuse/fuse.h"
#include "fuse/one_pass.h"
#include "graph/builder.h"
#include "simplify/simplify.h"
#include "support/head_graph.h"
#include "support/machines.h"
#include "support/memory.h"
#include "support/region_oracle.h"

namespace stretto {
namespace {

/// Every second of these workers gets a block of the columns.
Machine few_workers() { return h200_of(8); }

constexpr HeadGraph kHead{.columns = 700};

Graph simple_head(const HeadGraph& head) { return simplify(head_gradients(head)); }

bool reads_once(const Graph& graph) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& node) { return std::holds_alternative<Attention>(node.op); });
}

template <class Op>
std::ptrdiff_t count(const Graph& graph) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const Node& node) { return std::holds_alternative<Op>(node.op); });
}

TEST(OnePass, NoProductAndNoValueOfAllColumnsIsLeft) {
    const Graph graph = in_one_pass(simple_head(kHead), few_workers());
    EXPECT_TRUE(reads_once(graph));
    EXPECT_EQ(count<Contract>(graph), 0);
    for (const Node& node : graph.nodes) {
        const bool weights = std::holds_alternative<Input>(node.op);
        EXPECT_TRUE(weights || node.type.shape.empty() || node.type.shape.back() != kHead.columns);
    }
}

TEST(OnePass, TheMatrixIsCutIntoPartsOfWholeBlocksForAllWorkers) {
    HeadGraph head{.columns = 20 * 128 - 5};
    const Graph graph = in_one_pass(simple_head(head), few_workers());
    const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
        return std::holds_alternative<Attention>(node.op);
    });
    ASSERT_NE(found, graph.nodes.end());
    EXPECT_EQ(std::get<Attention>(found->op).splits, 7) << "three blocks each";
}

/// Random results of the head before and after: [loss, gradient].
void expect_same_values(const HeadGraph& head) {
    const Graph graph = simple_head(head);
    const RegionGraph regions = fuse(graph, few_workers());
    ASSERT_TRUE(std::any_of(regions.regions.begin(), regions.regions.end(), [](const Region& region) {
        return std::holds_alternative<AttentionRegion>(region.body);
    }));
    BufferMemory memory(regions, 5);
    Elements targets, scales;
    for (std::int64_t r = 0; r < head.rows; ++r) {
        targets.push_back(static_cast<double>(head.columns - 1 - 300 * r));
        scales.push_back(0.25 + 0.5 * static_cast<double>(r));
    }
    memory.set(buffer_named(regions, "target"), targets);
    memory.set(buffer_named(regions, "scale"), scales);
    // Scores beyond what exponentials of F32 hold, most of them far from the largest.
    Elements hidden = memory.elements(buffer_named(regions, "h"));
    for (double& x : hidden) x *= 240 / std::sqrt(static_cast<double>(head.depth));
    memory.set(buffer_named(regions, "h"), hidden);
    std::vector<Elements> buffers = memory.all_elements();
    evaluate(regions, buffers);
    const Elements weights = memory.elements(buffer_named(regions, "w"));
    hidden = memory.elements(buffer_named(regions, "h"));
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    const Elements& loss = buffers[buffer_named(regions, "loss").index()];
    const Elements& gradient = buffers[buffer_named(regions, "gradient").index()];
    for (std::int64_t r = 0; r < head.rows; ++r) {
        Elements scores;
        for (std::int64_t v = 0; v < head.columns; ++v) {
            double score = 0;
            for (std::int64_t d = 0; d < head.depth; ++d)
                score += hidden[at(r * head.depth + d)] * weights[at(v * head.depth + d)];
            scores.push_back(score);
        }
        const double most = *std::max_element(scores.begin(), scores.end());
        ASSERT_GT(most, 90);
        double total = 0;
        for (double score : scores) total += std::exp(score - most);
        const auto target = at(static_cast<std::int64_t>(targets[at(r)]));
        // F32 scores of up to a few hundred, whose roundings are those of exponents.
        EXPECT_NEAR(loss[at(r)], most + std::log(total) - scores[target], 1e-3);
        for (std::int64_t d = 0; d < head.depth; ++d) {
            double wanted = -weights[target * at(head.depth) + at(d)];
            for (std::int64_t v = 0; v < head.columns; ++v)
                wanted += std::exp(scores[at(v)] - most) / total * weights[at(v * head.depth + d)];
            EXPECT_NEAR(gradient[at(r * head.depth + d)], scales[at(r)] * wanted, 1e-4);
        }
    }
}

TEST(OnePass, GivesTheLossAndItsGradient) { expect_same_values(kHead); }
TEST(OnePass, GivesThemForTwoRows) { expect_same_values({.rows = 2, .columns = 700}); }
TEST(OnePass, GivesThemWhereRowsAreReducedInParts) { expect_same_values({.columns = 34 * 1024, .depth = 8}); }

void expect_unchanged(const HeadGraph& head, const Machine& machine = few_workers()) {
    const Graph graph = simple_head(head);
    EXPECT_EQ(in_one_pass(graph, machine), graph);
}

TEST(OnePass, AMatrixWhoseGradientIsWantedIsReadTwice) {
    expect_unchanged({.columns = 700, .depth = 64, .trained = true});
}
TEST(OnePass, ManyRowsStayProducts) { expect_unchanged({.rows = 3, .columns = 700}); }
TEST(OnePass, TheWidestRowsAreReadOnceAndWiderOnesStayProducts) {
    for (const auto& [type, depth] : {std::pair(DType::F32, 768), std::pair(DType::BF16, 1024)}) {
        const RegionGraph regions =
            fuse(simple_head({.columns = 700, .depth = depth, .type = type}), few_workers());
        EXPECT_TRUE(std::any_of(regions.regions.begin(), regions.regions.end(), [](const Region& region) {
            const auto* attention = std::get_if<AttentionRegion>(&region.body);
            return attention != nullptr && reads_rows_once(*attention);
        }));
        expect_unchanged({.columns = 700, .depth = depth + 8, .type = type});
    }
}
TEST(OnePass, RowsThatAreNotAlignedStayProducts) { expect_unchanged({.columns = 700, .depth = 63}); }
TEST(OnePass, AMatrixOfFewColumnsStaysAProduct) { expect_unchanged(kHead, builtin_machine("h200")); }

TEST(OnePass, ResultsThatOthersReadAreStored) {
    for (const bool smoothed : {false, true}) {
        GraphBuilder b;
        const Tensor h = b.input(Role::User, "h", DType::F32, {1, 64});
        const Tensor w = b.input(Role::Parameter, "w", DType::F32, {700, 64});
        const Tensor logits = b.linear(h, w, std::nullopt);
        Tensor weights = b.softmax(logits, 1, DType::F32);
        if (smoothed) {
            weights = b.apply(Op::Sub, {weights, b.full({1}, 0.1, DType::F32)}, DType::F32);
        } else {
            b.output(logits, "logits");
        }
        b.output(b.matmul(weights, w), "mix");
        const Graph graph = simplify(b.finish());
        EXPECT_EQ(in_one_pass(graph, few_workers()), graph);
    }
}

TEST(OnePass, ExactNumericsKeepTheRoundingsOfResults) {
    const RegionGraph regions = fuse(simple_head(kHead), few_workers(), Numerics::Exact);
    EXPECT_TRUE(std::none_of(regions.regions.begin(), regions.regions.end(), [](const Region& region) {
        return std::holds_alternative<AttentionRegion>(region.body);
    }));
}

}  // namespace
}  // namespace stretto
