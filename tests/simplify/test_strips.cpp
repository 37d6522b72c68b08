#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/builder.h"
#include "graph/text.h"
#include "simplify/simplify.h"
#include "simplify/strips.h"
#include "support/cross_entropy_graph.h"
#include "support/oracle.h"

namespace stretto {
namespace {

constexpr std::int64_t kWorkers = 4;

/// Elements of the largest value that is computed and no result.
std::int64_t largest_intermediate(const Graph& graph) {
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        bool result = std::holds_alternative<Input>(node.op);
        for (const Output& output : graph.outputs) result |= output.value.index() == i;
        if (!result) largest = std::max(largest, volume(node.type.shape));
    }
    return largest;
}

/// The outputs of a graph, by name.
std::map<std::string, Elements> results(const Graph& graph, const std::map<std::string, Elements>& inputs) {
    const std::vector<Elements> values = evaluate(graph, inputs);
    std::map<std::string, Elements> found;
    for (const Output& output : graph.outputs) found[output.name] = values[output.value.index()];
    return found;
}

void expect_same_results(const CrossEntropy& of, const std::map<std::string, Elements>& inputs,
                         std::int64_t strips) {
    const Graph stored = simplify(cross_entropy_graph(of));
    const Graph cut = in_strips(stored, strips, kWorkers);
    ASSERT_FALSE(cut == stored);
    EXPECT_LT(largest_intermediate(cut), of.rows * of.columns);
    const auto wanted = results(stored, inputs);
    for (const auto& [name, elements] : results(cut, inputs)) {
        // A few roundings to F32 for each strip; those of a gradient in 16 bits may go to the other side, seldom.
        EXPECT_LT(relative_distance(elements, wanted.at(name)), of.type == DType::F32 ? 0x1p-20 : 0x1p-12)
            << name;
    }
}

class Strips : public testing::TestWithParam<std::int64_t> {};

TEST_P(Strips, GiveTheLossAndTheGradientsOfStoredLogits) {
    const CrossEntropy of;
    expect_same_results(of, cross_entropy_inputs(of, 1), GetParam());
}

TEST_P(Strips, GiveThemInSixteenBits) {
    const CrossEntropy of{.type = DType::BF16};
    expect_same_results(of, cross_entropy_inputs(of, 2), GetParam());
}

TEST_P(Strips, GiveThemWithABiasASmoothedLossAndCappedLogits) {
    const CrossEntropy of{.biased = true, .cap = 3, .smoothing = 0.1};
    expect_same_results(of, cross_entropy_inputs(of, 3), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Of, Strips, testing::Values(2, 3, 5));

TEST(Strips, ThatAreAllMinusInfinityAddNothing) {
    const CrossEntropy of{.biased = true};
    auto inputs = cross_entropy_inputs(of, 4);
    for (std::size_t i = 0; i < 130; ++i) inputs["bias"][i] = -std::numeric_limits<double>::infinity();
    for (double& label : inputs["labels"]) label = label < 130 ? 200 : label;
    expect_same_results(of, inputs, 5);
    for (const double sum :
         results(in_strips(simplify(cross_entropy_graph(of)), 5, kWorkers), inputs).at("dh"))
        ASSERT_TRUE(std::isfinite(sum));
}

TEST(Strips, ReadALabelThatCountsFromTheEnd) {
    const CrossEntropy of;
    auto inputs = cross_entropy_inputs(of, 5);
    const Graph cut = in_strips(simplify(cross_entropy_graph(of)), 3, kWorkers);
    const double loss = results(cut, inputs).at("loss")[0];
    inputs["labels"][0] -= static_cast<double>(of.columns);
    EXPECT_EQ(results(cut, inputs).at("loss")[0], loss);
}

TEST(Strips, KeepNoMoreOfALongerRow) {
    CrossEntropy of{.hidden = 4};  // so that the weight is no larger than a strip
    const std::int64_t largest =
        largest_intermediate(in_strips(simplify(cross_entropy_graph(of)), 3, kWorkers));
    of.columns *= 2;
    EXPECT_EQ(largest_intermediate(in_strips(simplify(cross_entropy_graph(of)), 6, kWorkers)), largest);
}

TEST(Strips, AreAsManyAsKeepThemSmall) {
    const CrossEntropy small{.columns = 4096};
    const Graph stored = simplify(cross_entropy_graph(small));
    EXPECT_EQ(in_strips(stored, 0, kWorkers), stored);
    EXPECT_EQ(in_strips(stored, 1, kWorkers), stored);
    const CrossEntropy large{.rows = 2048, .columns = 16384};  // 128 MB of logits
    const std::int64_t bytes =
        4 * largest_intermediate(in_strips(simplify(cross_entropy_graph(large)), 0, kWorkers));
    EXPECT_GE(bytes, 32 << 20);
    EXPECT_LE(bytes, 36 << 20);
}

/// softmax(h w), or what else `rest` makes of it.
Graph graph_of(const std::function<void(GraphBuilder&, const Tensor&)>& rest) {
    GraphBuilder b;
    const Tensor h = b.input(Role::User, "h", DType::F32, {24, 16});
    const Tensor w = b.input(Role::Parameter, "w", DType::F32, {300, 16});
    rest(b, b.linear(h, w, std::nullopt));
    return simplify(b.finish());
}

void expect_stored(const std::function<void(GraphBuilder&, const Tensor&)>& rest) {
    const Graph graph = graph_of(rest);
    EXPECT_EQ(in_strips(graph, 3, kWorkers), graph);
}

TEST(Strips, LeaveResultsThatAreWantedThemselves) {
    expect_stored([](GraphBuilder& b, const Tensor& x) {
        b.output(b.reduce(ReduceOp::Max, x, {1}, false, DType::F32), "largest");
        b.output(b.apply(Op::Exp, {x}, DType::F32), "all");
    });
}

TEST(Strips, LeaveResultsThatNothingReduces) {
    expect_stored([](GraphBuilder& b, const Tensor& x) {
        const Tensor v = b.input(Role::Parameter, "v", DType::F32, {16, 300});
        b.output(b.linear(b.apply(Op::Tanh, {x}, DType::F32), v, std::nullopt), "y");
    });
}

TEST(Strips, LeaveRowsThatAreSorted) {
    expect_stored([](GraphBuilder& b, const Tensor& x) {
        b.output(b.reduce(ReduceOp::Max, x, {1}, false, DType::F32), "largest");
        b.output(b.argsort(x, 1, true), "order");
    });
}

TEST(Strips, LeaveWhatWouldTakeMoreThanThreePasses) {
    const auto normalized_times = [](int times) {
        return [times](GraphBuilder& b, const Tensor& x) {
            Tensor y = x;
            for (int i = 0; i < times; ++i) {
                const Tensor sum =
                    b.reduce(ReduceOp::Sum, b.apply(Op::Mul, {y, y}, DType::F32), {1}, true, DType::F32);
                y = b.apply(Op::Mul, {y, b.apply(Op::Rsqrt, {sum}, DType::F32)}, DType::F32);
            }
            b.output(b.reduce(ReduceOp::Max, y, {1}, false, DType::F32), "largest");
        };
    };
    EXPECT_FALSE(in_strips(graph_of(normalized_times(2)), 3, kWorkers) == graph_of(normalized_times(2)));
    expect_stored(normalized_times(3));
}

}  // namespace
}  // namespace stretto
