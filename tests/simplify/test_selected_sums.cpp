#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "graph/builder.h"
#include "graph/text.h"
#include "simplify/simplify.h"
#include "support/oracle.h"

namespace stretto {
namespace {

using Nodes = std::vector<std::int32_t>;

constexpr std::int64_t kRows = 3, kColumns = 6, kLayers = 4;
constexpr int kPrograms = 600;

/// Sums over columns, and sometimes layers, of one column of each row, written in random ways. The column is data, and some rows
/// name none.
class RandomSelection {
public:
    explicit RandomSelection(unsigned seed) : random_(seed) {
        space_ = {kRows, kColumns};
        if (coin()) space_.push_back(kLayers);
        places_ =
            given({kRows}, DType::I64, [&] { return static_cast<double>(below(3 * kColumns) - kColumns); });
        factors_ = given({kRows}, DType::F32, [&] {
            const double special[] = {std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN(), 0, -0.0};
            return below(4) == 0 ? special[below(4)] : number();
        });
    }

    Graph run() {
        Tensor x = selected();
        for (std::int64_t i = below(4); i > 0; --i) x = wrapped(x);
        std::vector<int> dims;
        for (std::size_t d = 1; d < space_.size(); ++d) dims.push_back(static_cast<int>(d));
        builder_.output(builder_.reduce(ReduceOp::Sum, x, dims, false, coin() ? DType::F32 : DType::BF16),
                        "sum");
        return builder_.finish();
    }

    [[nodiscard]] const std::map<std::string, Elements>& inputs() const { return inputs_; }

private:
    std::int64_t below(std::int64_t limit) {
        return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random_);
    }
    bool coin() { return below(2) == 0; }
    double number() { return std::uniform_real_distribution<float>(-2, 2)(random_); }

    template <class Draw>
    Tensor given(const Shape& shape, DType dtype, const Draw& draw) {
        const std::string name = "x" + std::to_string(inputs_.size());
        Elements& elements = inputs_[name];
        elements.resize(static_cast<std::size_t>(volume(shape)));
        std::generate(elements.begin(), elements.end(), draw);
        return builder_.input(Role::User, name, dtype, shape);
    }
    Tensor number_of_rows(const Tensor& x) {
        return builder_.reshape(x, space_.size() == 2 ? Shape{kRows, 1} : Shape{kRows, 1, 1});
    }

    /// Values over the whole space, in some layout.
    Tensor values() {
        const auto draw = [&] { return number(); };
        if (space_.size() == 3)
            return builder_.transpose(given({kColumns, kRows, kLayers}, DType::F32, draw), 0, 1);
        switch (below(3)) {
            case 0:
                return given(space_, DType::F32, draw);
            case 1:
                return builder_.transpose(given({kColumns, kRows}, DType::F32, draw), 0, 1);
            default:
                return builder_.reshape(
                    builder_.transpose(given({2, kRows, kColumns / 2}, DType::F32, draw), 0, 1), space_);
        }
    }

    Tensor compared() {
        const bool equal = coin(), first = coin(), inverted = coin(), also = below(3) == 0;
        return builder_.pointwise(
            {builder_.expand(number_of_rows(places_), space_)}, DType::Bool, [=](Expr& e, const Nodes& n) {
                const std::int32_t j = e.index(1);
                const Nodes args = first ? Nodes{n[0], j} : Nodes{j, n[0]};
                std::int32_t here = e.apply(equal ? Op::Eq : Op::Ne, DType::Bool, args);
                if (!equal || inverted) here = e.apply(Op::Not, {here});
                if (equal && inverted) here = e.apply(Op::Not, {here});
                const std::int32_t some =
                    e.apply(Op::Le, DType::Bool, {j, e.constant(kColumns - 2, DType::I64)});
                return also ? e.apply(Op::And, {some, here}) : here;
            });
    }

    Tensor selected() {
        const Tensor here = compared();
        switch (below(4)) {
            case 0:
                return builder_.cast(here, DType::F32);
            case 1:
                return builder_.apply(Op::Mul, {builder_.cast(here, DType::F32), number_of_rows(factors_)},
                                      DType::F32);
            case 2:
                return builder_.pointwise({here, values()}, DType::F32, [](Expr& e, const Nodes& n) {
                    return e.apply(Op::Select, {e.apply(Op::Not, {n[0]}), e.constant(0, DType::F32), n[1]});
                });
            default:
                return builder_.pointwise({here, values()}, DType::F32, [](Expr& e, const Nodes& n) {
                    return e.apply(Op::Select, {n[0], n[1], e.constant(0, DType::F32)});
                });
        }
    }

    Tensor wrapped(const Tensor& x) {
        switch (below(6)) {
            case 0:
                return builder_.apply(Op::Mul, {number_of_rows(factors_), x}, DType::F32);
            case 1:
                return builder_.apply(Op::Div, {x, number_of_rows(factors_)}, DType::F32);
            case 2:
                return builder_.apply(Op::Neg, {x}, DType::F32);
            case 3:
                return builder_.cast(builder_.cast(x, DType::BF16), DType::F32);
            case 4:
                return builder_.apply(Op::Mul, {x, builder_.full({1}, -0.5, DType::F32)}, DType::F32);
            default:
                return builder_.pointwise(
                    {x, number_of_rows(places_)}, DType::F32, [](Expr& e, const Nodes& n) {
                        const auto odd = e.apply(Op::Mod, {n[1], e.constant(2, DType::I64)});
                        const auto is = e.apply(Op::Eq, DType::Bool, {odd, e.constant(1, DType::I64)});
                        return e.apply(Op::Select, {is, n[0], e.constant(0, DType::F32)});
                    });
        }
    }

    std::mt19937 random_;
    GraphBuilder builder_;
    std::map<std::string, Elements> inputs_;
    Shape space_;
    Tensor places_;
    Tensor factors_;
};

std::int64_t longest_sum(const Graph& graph) {
    std::int64_t longest = 0;
    for (const Node& node : graph.nodes) {
        if (const auto* op = std::get_if<Reduce>(&node.op)) longest = std::max(longest, volume(op->extents));
    }
    return longest;
}

Elements result(const Graph& graph, const std::map<std::string, Elements>& inputs) {
    return evaluate(graph, inputs)[graph.outputs.back().value.index()];
}

TEST(SelectedSums, EqualTheSumsAndGoThroughNoColumns) {
    for (unsigned seed = 0; seed < kPrograms && !testing::Test::HasFailure(); ++seed) {
        RandomSelection selection(seed);
        const Graph graph = selection.run();
        const Graph simple = simplify(graph);
        SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + to_text(graph) + "\n" + to_text(simple));
        EXPECT_LE(longest_sum(simple), kLayers);
        const Elements want = result(graph, selection.inputs()), got = result(simple, selection.inputs());
        for (std::size_t i = 0; i < want.size(); ++i) {
            EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
                << got[i] << ", not " << want[i];
        }
    }
}

/// sum or maximum over j of a term that `body` makes from places[i], places[j], a value of (i, j), j and i.
Graph reduction(ReduceOp op, const GraphBuilder::Body& body) {
    GraphBuilder b;
    const Tensor own = b.input(Role::User, "own", DType::I64, {kColumns, 1});
    const Tensor other = b.input(Role::User, "other", DType::I64, {1, kColumns});
    const Tensor value = b.input(Role::User, "value", DType::F32, {kColumns, kColumns});
    const Tensor term = b.pointwise({own, other, value}, DType::F32, [&](Expr& e, const Nodes& n) {
        return body(e, {n[0], n[1], n[2], e.index(1), e.index(0)});
    });
    b.output(b.reduce(op, term, {1}, false, DType::F32), "reduced");
    return b.finish();
}

std::int32_t select(Expr& e, std::int32_t a, std::int32_t b, std::int32_t value, double otherwise) {
    const std::int32_t equal = e.apply(Op::Eq, DType::Bool, {a, b});
    return e.apply(Op::Select, {equal, value, e.constant(otherwise, DType::F32)});
}

TEST(SelectedSums, OtherReductionsStay) {
    const auto stays = [](ReduceOp op, const GraphBuilder::Body& body) {
        return longest_sum(simplify(reduction(op, body))) == kColumns;
    };
    const auto here = [](Expr& e, const Nodes& n) { return select(e, n[0], n[3], n[2], 0); };
    EXPECT_FALSE(stays(ReduceOp::Sum, here));
    EXPECT_TRUE(stays(ReduceOp::Max, here)) << "others count as zero";
    EXPECT_TRUE(stays(ReduceOp::Sum, [](Expr& e, const Nodes& n) { return select(e, n[1], n[3], n[2], 0); }))
        << "the place varies with the coordinate";
    EXPECT_TRUE(stays(ReduceOp::Sum, [](Expr& e, const Nodes& n) { return select(e, n[1], n[4], n[2], 0); }))
        << "no coordinate of the sum is compared";
    EXPECT_TRUE(stays(ReduceOp::Sum, [](Expr& e, const Nodes& n) { return select(e, n[0], n[3], n[2], 1); }))
        << "the others are not zero";
    EXPECT_TRUE(stays(ReduceOp::Sum, [](Expr& e, const Nodes& n) {
        return e.apply(Op::Mul, {select(e, n[0], n[3], e.constant(1, DType::F32), 0), n[2]});
    })) << "a value at another place may not be finite";
}

/// Many terms are added up in two stages, which see the coordinate in two parts.
TEST(SelectedSums, AreFoundInSumsOfTwoStages) {
    constexpr std::int64_t kMany = 1 << 16;
    GraphBuilder b;
    const Tensor place = b.input(Role::User, "place", DType::I64, {1});
    const Tensor values = b.input(Role::User, "values", DType::F32, {kMany});
    const Tensor one = b.pointwise({place, values}, DType::F32, [](Expr& e, const Nodes& n) {
        return select(e, n[0], e.index(0), n[1], 0);
    });
    b.output(b.reduce(ReduceOp::Sum, one, {0}, false, DType::F32), "sum");
    const Graph graph = b.finish();
    ASSERT_GT(longest_sum(graph), 1);
    const Graph simple = simplify(graph);
    EXPECT_LT(longest_sum(simple), 1 << 10) << to_text(simple);
    Elements elements(kMany);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<double>(i) + 0.5;
    for (const double at : {-1.0, 0.0, 777.0, kMany - 1.0, kMany + 0.0}) {
        const double want = at < 0 || at >= kMany ? 0 : at + 0.5;
        EXPECT_EQ(result(simple, {{"place", {at}}, {"values", elements}}), Elements{want}) << at;
    }
}

}  // namespace
}  // namespace stretto
