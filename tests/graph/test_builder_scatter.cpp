#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/error.h"
#include "graph/builder.h"
#include "support/oracle.h"

namespace stretto {
namespace {

/// Random inputs, and what a tensor made of them evaluates to.
class ScatterTest : public testing::Test {
protected:
    Tensor random(const Shape& shape) {
        std::uniform_real_distribution<float> uniform(-2, 2);
        Elements elements(static_cast<std::size_t>(volume(shape)));
        for (double& x : elements) x = uniform(engine_);
        return given(shape, DType::F32, elements);
    }
    Tensor positions(const Shape& shape, std::int64_t low, std::int64_t high) {
        std::uniform_int_distribution<std::int64_t> uniform(low, high - 1);
        Elements elements(static_cast<std::size_t>(volume(shape)));
        for (double& x : elements) x = static_cast<double>(uniform(engine_));
        return given(shape, DType::I64, elements);
    }
    Tensor given(const Shape& shape, DType dtype, const Elements& elements) {
        const std::string name = "x" + std::to_string(inputs_.size());
        inputs_[name] = elements;
        return b.input(Role::User, name, dtype, shape);
    }
    const Elements& of(const Tensor& input) {
        return inputs_.at(std::get<Input>(b.graph()[input.value].op).name);
    }
    Elements result(const Tensor& x) {
        GraphBuilder copy = b;
        copy.output(x, "result");
        const Graph graph = copy.finish();
        return evaluate(graph, inputs_)[graph.outputs.back().value.index()];
    }

    GraphBuilder b;

private:
    std::map<std::string, Elements> inputs_;
    std::mt19937 engine_{11};
};

void expect_near(const Elements& got, const Elements& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5) << "element " << i;
}

TEST_F(ScatterTest, ScatterWritesPositionsOfWholeRowsAndTheLastOfEqualsWins) {
    const Tensor x = random({4, 6}), at = positions({4, 3}, 0, 6), values = random({4, 3});
    Elements wanted = of(x);
    for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t j = 0; j < 3; ++j)
            wanted[i * 6 + static_cast<std::size_t>(of(at)[i * 3 + j])] = of(values)[i * 3 + j];
    }
    expect_near(result(b.scatter(x, 1, at, values)), wanted);
}

/// Sums of rows at random positions, where many positions are equal.
class IndexAdd : public ScatterTest, public testing::WithParamInterface<std::int64_t> {};

TEST_P(IndexAdd, SumsValuesAtEqualPositions) {
    const std::int64_t rows = GetParam();
    const Tensor x = random({rows, 5}), at = positions({3, 4}, -rows, rows), values = random({3, 4, 5});
    Elements wanted = of(x);
    for (std::size_t n = 0; n < 12; ++n) {
        const auto row = static_cast<std::int64_t>(of(at)[n]);
        for (std::size_t c = 0; c < 5; ++c)
            wanted[static_cast<std::size_t>(row < 0 ? row + rows : row) * 5 + c] += of(values)[n * 5 + c];
    }
    expect_near(result(b.index_add(x, {at}, values)), wanted);
}

// Fewer rows than positions, and more.
INSTANTIATE_TEST_SUITE_P(Rows, IndexAdd, testing::Values(2, 12, 40));

TEST_F(ScatterTest, IndexAddTakesSeveralIndicesAndKeepsTheOtherDimensions) {
    const Tensor x = random({2, 5, 3}), row = positions({4}, 0, 5), column = positions({4}, 0, 3);
    const Tensor values = random({2, 4});
    Elements wanted = of(x);
    for (std::size_t outer = 0; outer < 2; ++outer) {
        for (std::size_t n = 0; n < 4; ++n) {
            const auto at = static_cast<std::size_t>(of(row)[n] * 3 + of(column)[n]);
            wanted[outer * 15 + at] += of(values)[outer * 4 + n];
        }
    }
    expect_near(result(b.index_add(x, {std::nullopt, row, column}, values)), wanted);
}

/// Sums at the numbers of a permutation of so many, divided.
class PermutationAdd : public ScatterTest, public testing::WithParamInterface<std::int64_t> {
protected:
    Tensor divided(const Tensor& order, std::int64_t by) {
        return b.pointwise({order}, DType::I64, [&](Expr& e, const std::vector<std::int32_t>& n) {
            return e.apply(Op::FloorDiv, {n[0], e.constant(static_cast<double>(by), DType::I64)});
        });
    }
    Elements wanted(const Tensor& x, const Elements& order, std::int64_t share, const Tensor& values) {
        Elements sums = of(x);
        for (std::size_t n = 0; n < of(values).size() / 5; ++n) {
            const auto place = static_cast<std::size_t>(order[n]) / static_cast<std::size_t>(share);
            for (std::size_t c = 0; c < 5; ++c) sums[place * 5 + c] += of(values)[n * 5 + c];
        }
        return sums;
    }
};

TEST_P(PermutationAdd, NeedsNoOrderOfItsOwn) {
    const std::int64_t count = GetParam();
    const Tensor order = b.argsort(positions({count}, 0, 7), 0, false);
    const Elements numbers = result(order);
    const Tensor values = random({count, 5});
    for (const std::int64_t share : {1, 3}) {
        const Tensor x = random({count / share, 5});
        const std::size_t before = b.graph().nodes.size();
        const Tensor sum = b.index_add(x, {divided(order, share)}, values);
        for (std::size_t i = before; i < b.graph().nodes.size(); ++i) {
            const auto* reduce = std::get_if<Reduce>(&b.graph().nodes[i].op);
            EXPECT_TRUE(reduce == nullptr || reduce->extents == Shape{share});
        }
        expect_near(result(sum), wanted(x, numbers, share, values));
    }
}

TEST_P(PermutationAdd, PartsOfOneAndOtherDivisorsAreSummedLikeAnyNumbers) {
    const std::int64_t count = GetParam();
    const Tensor order = b.argsort(positions({count}, 0, 7), 0, true);
    const Elements numbers = result(order);
    const Tensor x = random({count, 5}), values = random({count / 2, 5}), all = random({count, 5});
    expect_near(result(b.index_add(x, {b.slice(order, 0, 0, count / 2)}, values)),
                wanted(x, numbers, 1, values));
    expect_near(result(b.index_add(x, {divided(order, 5)}, all)), wanted(x, numbers, 5, all));
}

TEST_P(PermutationAdd, TheOrderOfAnOrderIsItsInverse) {
    const std::int64_t count = GetParam();
    const Tensor order = b.argsort(positions({count}, 0, 7), 0, true);
    const std::size_t before = b.graph().nodes.size();
    const Tensor inverse = b.argsort(order, 0, false);
    EXPECT_EQ(b.graph().nodes.size(), before);
    const Elements places = result(order), back = result(inverse);
    for (std::size_t i = 0; i < places.size(); ++i) {
        EXPECT_EQ(back[static_cast<std::size_t>(places[i])], static_cast<double>(i));
    }
    EXPECT_EQ(result(b.argsort(inverse, 0, false)), places);
}

// Orders by comparing, and by a data-dependent store.
INSTANTIATE_TEST_SUITE_P(Lengths, PermutationAdd, testing::Values(12, 258));

TEST_F(ScatterTest, AScatterOfManyPositionsIsRefusedWithItsLimit) {
    const Tensor x = random({4, 40}), at = positions({4, 17}, 0, 40);
    EXPECT_THROW((void)b.scatter(x, 1, at, random({4, 17})), UserError);
}

TEST_F(ScatterTest, APartOfAConstantIsAnExpression) {
    const Tensor part = random({3, 2});
    const Tensor whole = b.slice_scatter(b.full({3, 7}, 1.5, DType::F32), part, -1, -4, -2);
    EXPECT_TRUE(std::holds_alternative<Pointwise>(b.graph()[whole.value].op));
    Elements wanted(21, 1.5);
    for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 2; ++j) wanted[i * 7 + 3 + j] = of(part)[i * 2 + j];
    }
    expect_near(result(whole), wanted);
}

TEST_F(ScatterTest, ALongConcatenationIsMadeOfShortOnes) {
    std::vector<Tensor> parts;
    Elements wanted;
    for (int i = 0; i < 70; ++i) {
        parts.push_back(random({1 + i % 3}));
        wanted.insert(wanted.end(), of(parts.back()).begin(), of(parts.back()).end());
    }
    const Tensor whole = b.concat(parts, 0);
    expect_near(result(whole), wanted);
    for (const Node& node : b.graph().nodes) EXPECT_LE(operands(node).size(), 8U);
}

}  // namespace
}  // namespace stretto
