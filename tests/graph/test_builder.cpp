#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/builder_test.h"

namespace stretto {
namespace {

template <class Call>
std::string message_of(Call&& call) {
    try {
        call();
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

TEST_F(BuilderTest, BroadcastsOperands) {
    const Tensor x = random({2, 1, 3}), y = random({4, 1});
    const Elements xs = elements_of(x), ys = elements_of(y);
    Elements wanted;
    for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t j = 0; j < 4; ++j) {
            for (std::size_t k = 0; k < 3; ++k) wanted.push_back(xs[i * 3 + k] + ys[j]);
        }
    }
    const Tensor sum = b.apply(Op::Add, {x, y}, DType::F32);
    EXPECT_EQ(sum.shape(), (Shape{2, 4, 3}));
    expect_near(elements_of(sum), wanted);
}

TEST_F(BuilderTest, ComparesIntegersWithFloatsAsFloats) {
    const Tensor x = given({3}, DType::I64, {1, 2, 3}), y = given({3}, DType::F32, {1.5, 1.5, 3});
    EXPECT_EQ(elements_of(b.apply(Op::Le, {x, y}, DType::Bool)), (Elements{1, 0, 1}));
}

TEST_F(BuilderTest, DividesIntegersAsFloats) {
    const Tensor x = given({2}, DType::I64, {1, 7}), y = given({2}, DType::I64, {2, 2});
    EXPECT_EQ(elements_of(b.apply(Op::Div, {x, y}, DType::F32)), (Elements{0.5, 3.5}));
}

TEST_F(BuilderTest, ViewsAddNoNodes) {
    const Tensor x = random({4, 6});
    const std::size_t before = nodes();
    const Tensor heads = b.transpose(b.reshape(x, {4, 2, 3}), 0, 1);
    const Tensor part = b.select(b.slice(b.unsqueeze(heads, 0), 2, 1, -1), 3, 2);
    b.expand(part, {5, -1, -1});
    EXPECT_EQ(nodes(), before);
    EXPECT_EQ(part.shape(), (Shape{1, 2, 2}));
    const Elements xs = elements_of(x);
    EXPECT_EQ(elements_of(part), (Elements{xs[8], xs[14], xs[11], xs[17]}));
}

TEST_F(BuilderTest, ReshapeCopiesOnlyWhereNoMapExpressesTheView) {
    const Tensor x = random({4, 6});
    const Tensor part = b.slice(x, 1, 0, 5);
    const std::size_t before = nodes();
    const Tensor flat = b.reshape(part, {-1});
    EXPECT_EQ(nodes(), before);
    const Tensor cut = b.reshape(part, {10, 2});
    EXPECT_EQ(nodes(), before + 1);
    EXPECT_EQ(elements_of(cut), elements_of(flat));
}

TEST_F(BuilderTest, SlicesWithAStep) {
    const Tensor x = random({7});
    const Elements xs = elements_of(x);
    EXPECT_EQ(elements_of(b.slice(x, 0, -6, 1000, 2)), (Elements{xs[1], xs[3], xs[5]}));
}

TEST_F(BuilderTest, ConcatenatesViews) {
    const Tensor x = random({2, 4});
    const Elements xs = elements_of(x);
    const Tensor turned = b.concat({b.slice(x, 1, 2, 4), b.slice(x, 1, 0, 2)}, -1);
    EXPECT_EQ(elements_of(turned), (Elements{xs[2], xs[3], xs[0], xs[1], xs[6], xs[7], xs[4], xs[5]}));
}

TEST_F(BuilderTest, ConcatenatesWhatCannotBePadded) {
    const Tensor x = random({2, 2});
    const Elements xs = elements_of(x);
    const Tensor columns = b.reshape(b.transpose(x, 0, 1), {4});
    EXPECT_EQ(elements_of(b.concat({columns, b.reshape(x, {4})}, 0)),
              (Elements{xs[0], xs[2], xs[1], xs[3], xs[0], xs[1], xs[2], xs[3]}));
}

TEST_F(BuilderTest, ReducesLongDimensionsInTwoStages) {
    const Tensor x = random({2, 20'000});
    const Elements xs = elements_of(x);
    const Tensor sum = b.reduce(ReduceOp::Sum, x, {1}, true, DType::F32);
    const Tensor top = b.reduce(ReduceOp::Max, x, {-1}, false, DType::F32);
    EXPECT_EQ(sum.shape(), (Shape{2, 1}));
    // 20,000 = 160 * 125: five steps of 32 lanes for each part, then four for the parts.
    EXPECT_EQ(op_of<Reduce>(top).extents, (Shape{125}));
    Elements sums(2, 0), tops(2, -10);
    for (std::size_t i = 0; i < xs.size(); ++i) {
        sums[i / 20'000] += xs[i];
        tops[i / 20'000] = std::max(tops[i / 20'000], xs[i]);
    }
    expect_near(elements_of(sum), sums, 1e-2);
    expect_near(elements_of(top), tops, 0);
}

TEST_F(BuilderTest, FindsTheFirstOfTheLargestElements) {
    const Elements xs{3, -1, 3, 2, -5, -0.25, -0.0, 0, 1e-40, -7, -8, -6};
    const Tensor x = given({3, 4}, DType::F32, xs);
    EXPECT_EQ(elements_of(b.argmax(x, -1, false)), (Elements{0, 2, 0}));
    EXPECT_EQ(elements_of(b.argmax(x, 0, true)), (Elements{0, 1, 0, 0}));
    const Tensor unknown = given({1, 3}, DType::F32, {1, std::nan(""), 5});
    EXPECT_EQ(elements_of(b.argmax(unknown, 1, false)), (Elements{1}));
    const Tensor whole = given({5}, DType::I32, {-4, 9, 2, 9, -2});
    EXPECT_EQ(elements_of(b.argmax(whole, 0, false)), (Elements{1}));
}

TEST_F(BuilderTest, FindsTheLargestOfManyElements) {
    const Tensor x = random({3, 50'257}, DType::BF16);
    const Elements xs = elements_of(x), found = elements_of(b.argmax(x, 1, false));
    for (std::size_t row = 0; row < 3; ++row) {
        const auto first = xs.begin() + static_cast<std::ptrdiff_t>(row) * 50'257;
        EXPECT_EQ(found[row], std::max_element(first, first + 50'257) - first);
    }
}

TEST_F(BuilderTest, ReducesLongOuterDimensionsInPartsWhoseResultsStayNeighbours) {
    const Tensor x = random({10'000, 3});
    const Elements xs = elements_of(x);
    const Tensor sum = b.reduce(ReduceOp::Sum, x, {0}, false, DType::F32);
    const Reduce& last = op_of<Reduce>(sum);
    EXPECT_EQ(last.extents, (Shape{4}));
    EXPECT_EQ(last.term.accesses.at(0).map.dims.front(), (std::vector<Atom>{atom(3, 1)}));
    Elements sums(3, 0);
    for (std::size_t i = 0; i < xs.size(); ++i) sums[i % 3] += xs[i];
    expect_near(elements_of(sum), sums, 1e-2);
}

TEST_F(BuilderTest, ReducesOverAnyDimensions) {
    const Tensor x = random({2, 3, 2});
    const Elements xs = elements_of(x);
    const Tensor sum = b.reduce(ReduceOp::Sum, x, {0, -1}, true, DType::F32);
    EXPECT_EQ(sum.shape(), (Shape{1, 3, 1}));
    expect_near(elements_of(sum), {xs[0] + xs[1] + xs[6] + xs[7], xs[2] + xs[3] + xs[8] + xs[9],
                                   xs[4] + xs[5] + xs[10] + xs[11]});
    const Tensor top = b.reduce(ReduceOp::Max, x, {}, false, DType::F32);
    EXPECT_EQ(elements_of(top), (Elements{*std::max_element(xs.begin(), xs.end())}));
}

TEST_F(BuilderTest, SoftmaxIsStableForLargeInputs) {
    const Tensor x = given({1, 3}, DType::F32, {1000, 1001, 999});
    const double total = std::exp(-1) + 1 + std::exp(-2);
    expect_near(elements_of(b.softmax(x, -1, DType::F32)),
                {std::exp(-1) / total, 1 / total, std::exp(-2) / total});
}

TEST_F(BuilderTest, IndexTakesRows) {
    const Tensor table = random({5, 2}), ids = given({2, 1}, DType::I64, {3, -1});
    const Elements t = elements_of(table);
    const Tensor rows = b.index(table, {ids});
    EXPECT_EQ(rows.shape(), (Shape{2, 1, 2}));
    EXPECT_EQ(elements_of(rows), (Elements{t[6], t[7], t[8], t[9]}));
}

TEST_F(BuilderTest, SeparatedIndicesPutTheirDimensionsFirst) {
    const Tensor x = random({2, 3, 4});
    const Tensor i = given({2}, DType::I64, {1, 0}), j = given({2}, DType::I64, {3, 2});
    const Elements xs = elements_of(x);
    const Tensor out = b.index(x, {i, std::nullopt, j});
    EXPECT_EQ(out.shape(), (Shape{2, 3}));
    EXPECT_EQ(elements_of(out), (Elements{xs[15], xs[19], xs[23], xs[2], xs[6], xs[10]}));
}

TEST_F(BuilderTest, AdjacentIndicesStayInPlace) {
    const Tensor x = random({2, 3, 4});
    const Tensor i = given({2}, DType::I64, {2, 0}), j = given({2}, DType::I64, {3, 1});
    const Elements xs = elements_of(x);
    const Tensor out = b.index(x, {std::nullopt, i, j});
    EXPECT_EQ(elements_of(out), (Elements{xs[11], xs[1], xs[23], xs[13]}));
}

TEST_F(BuilderTest, IndexPutWritesOnlyTheRowsItNames) {
    const Tensor cache = random({1, 2, 4, 2}, DType::F32, Role::State), rows = random({1, 2, 1, 2});
    const Tensor at = given({1}, DType::I64, {2});
    Elements wanted = elements_of(cache);
    const Elements r = elements_of(rows);
    wanted[4] = r[0], wanted[5] = r[1], wanted[12] = r[2], wanted[13] = r[3];
    const Tensor next = b.index_put(cache, {std::nullopt, std::nullopt, at}, rows);
    EXPECT_EQ(op_of<Update>(next).state, cache.value);
    EXPECT_EQ(elements_of(next), wanted);
}

TEST_F(BuilderTest, IndexPutThroughAPermutedViewUpdatesTheValueItself) {
    const Tensor cache = random({2, 3}, DType::F32, Role::State), at = given({1}, DType::I64, {1});
    const Tensor next = b.index_put(b.transpose(cache, 0, 1), {at}, given({2}, DType::F32, {7, 8}));
    EXPECT_EQ(op_of<Update>(next).state, cache.value);
    const Elements c = elements_of(cache);
    EXPECT_EQ(elements_of(next), (Elements{c[0], c[3], 7, 8, c[2], c[5]}));
}

TEST_F(BuilderTest, IndexPutOnPartOfAValueUpdatesACopy) {
    const Tensor x = random({4, 2}), at = given({1}, DType::I64, {0});
    const Tensor next = b.index_put(b.slice(x, 0, 2, 4), {at}, given({2}, DType::F32, {7, 8}));
    EXPECT_NE(op_of<Update>(next).state, x.value);
    const Elements xs = elements_of(x);
    EXPECT_EQ(elements_of(next), (Elements{7, 8, xs[6], xs[7]}));
}

TEST_F(BuilderTest, IndexPutOfItsOwnIndexKeepsTheValueLast) {
    const Tensor x = given({2, 2}, DType::I64, {5, 5, 5, 5});
    const Tensor i = given({1}, DType::I64, {1}), j = given({1}, DType::I64, {0});
    EXPECT_EQ(elements_of(b.index_put(x, {i, j}, i)), (Elements{5, 5, 1, 5}));
}

TEST_F(BuilderTest, SliceScatterWritesASlice) {
    const Tensor x = random({3, 4}), values = random({3, 2});
    Elements wanted = elements_of(x);
    const Elements v = elements_of(values);
    for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 2; ++j) wanted[i * 4 + 1 + 2 * j] = v[i * 2 + j];
    }
    EXPECT_EQ(elements_of(b.slice_scatter(x, values, 1, 1, 4, 2)), wanted);
}

TEST_F(BuilderTest, ResultsNeverShareMemoryWithInputs) {
    const Tensor x = random({3});
    b.output(x, "same");
    const Graph graph = b.finish();
    EXPECT_NE(graph.outputs[0].value, x.value);
}

TEST_F(BuilderTest, AStateThatKeepsItsValueNeedsNoUpdate) {
    const Tensor state = random({3}, DType::F32, Role::State);
    b.update_state(state, b.reshape(b.reshape(state, {3, 1}), {3}), "state");
    EXPECT_TRUE(b.graph().outputs.empty());
}

TEST_F(BuilderTest, NodesRememberTheirSource) {
    b.at({"model.layers.3.mlp", "aten.mul.Tensor"});
    const Tensor x = random({2});
    EXPECT_EQ(b.graph()[b.apply(Op::Mul, {x, x}, DType::F32).value].source.module, "model.layers.3.mlp");
}

TEST_F(BuilderTest, ErrorsNameTheOperationAndItsModule) {
    b.at({"model.layers.3.mlp", "aten.mul.Tensor"});
    const Tensor x = random({2, 3}), y = random({4});
    EXPECT_EQ(message_of([&] {
                  b.apply(Op::Mul, {x, y}, DType::F32);
              }),
              "shapes do not broadcast: [4] against [2, 3]\n  in aten.mul.Tensor at model.layers.3.mlp");
    EXPECT_EQ(message_of([&] {
                  b.reshape(x, {4, -1});
              }),
              "shape [4, 1] does not hold the 6 elements of shape [2, 3]\n"
              "  in aten.mul.Tensor at model.layers.3.mlp");
}

TEST_F(BuilderTest, ErrorsSayWhatDoesNotFit) {
    const Tensor x = random({2, 3}), mask = given({2}, DType::Bool, {1, 0});
    EXPECT_EQ(message_of([&] { b.select(x, 1, 3); }), "index 3 is outside dimension 1 of shape [2, 3]");
    EXPECT_EQ(message_of([&] { b.unsqueeze(x, 4); }),
              "dimension 4 is outside a tensor of shape [2, 3] with one more");
    EXPECT_EQ(message_of([&] {
                  b.permute(x, {0, 0});
              }),
              "not a permutation of the dimensions of shape [2, 3]");
    EXPECT_EQ(message_of([&] { b.matmul(x, x); }), "cannot multiply shapes [2, 3] and [2, 3]");
    EXPECT_EQ(
        message_of([&] { b.index(x, {mask}); }),
        "cannot index with a tensor of bool: the result's shape or position would depend on data; index "
        "with integers");
    EXPECT_EQ(message_of([&] { b.update_state(x, x, "x"); }), "x is not a state input");
}

}  // namespace
}  // namespace stretto
