#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "import/program_json.h"

namespace stretto {
namespace {

using Args = std::vector<std::pair<std::string, std::string>>;

Elements random(std::size_t count, double low = -3, double high = 3) {
    static std::mt19937 engine(5);
    std::uniform_real_distribution<float> uniform(static_cast<float>(low), static_cast<float>(high));
    Elements out(count);
    for (double& x : out) x = uniform(engine);
    return out;
}

struct Given {
    DType dtype = DType::F32;
    Shape shape;
    Elements elements;
};

/// Runs one operation on operands named x0, x1, ...
Elements run(const std::string& op, const std::vector<Given>& operands, const Args& args, DType dtype,
             const Shape& shape) {
    ProgramJson program;
    std::map<std::string, Elements> inputs;
    for (const Given& operand : operands) {
        const std::string name = "x" + std::to_string(inputs.size());
        program.user(name, operand.dtype, operand.shape);
        inputs[name] = operand.elements;
    }
    program.node(op, args, "y", dtype, shape).output("y");
    const Imported imported = import_program(program.text(), {});
    return evaluate(imported.graph, inputs)[imported.graph.outputs[0].value.index()];
}

void expect_near(const Elements& got, const Elements& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], wanted[i], 2e-6 * (1 + std::abs(wanted[i]))) << "element " << i;
    }
}

// Pointwise rows, each against the C++ library.

struct Unary {
    std::string op;
    Args more;
    double (*wanted)(double);
    double low = -3;
};

class UnaryRows : public testing::TestWithParam<Unary> {};

TEST_P(UnaryRows, MeansWhatPyTorchMeans) {
    const Unary& row = GetParam();
    const Elements x = random(50, row.low);
    Args args = {{"self", tensor("x0")}};
    args.insert(args.end(), row.more.begin(), row.more.end());
    Elements wanted;
    for (const double value : x) wanted.push_back(row.wanted(value));
    expect_near(run(row.op, {{DType::F32, {50}, x}}, args, DType::F32, {50}), wanted);
}

const double kTiny = 0.01;

INSTANTIATE_TEST_SUITE_P(
    Import, UnaryRows,
    testing::Values(
        Unary{"aten.neg.default", {}, [](double x) { return -x; }},
        Unary{"aten.abs.default", {}, [](double x) { return std::abs(x); }},
        Unary{"aten.exp.default", {}, [](double x) { return std::exp(x); }},
        Unary{"aten.log.default", {}, [](double x) { return std::log(x); }, kTiny},
        Unary{"aten.sqrt.default", {}, [](double x) { return std::sqrt(x); }, kTiny},
        Unary{"aten.rsqrt.default", {}, [](double x) { return 1 / std::sqrt(x); }, kTiny},
        Unary{"aten.reciprocal.default", {}, [](double x) { return 1 / x; }, kTiny},
        Unary{"aten.sin.default", {}, [](double x) { return std::sin(x); }},
        Unary{"aten.cos.default", {}, [](double x) { return std::cos(x); }},
        Unary{"aten.tanh.default", {}, [](double x) { return std::tanh(x); }},
        Unary{"aten.erf.default", {}, [](double x) { return std::erf(x); }},
        Unary{"aten.sigmoid.default", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
        Unary{"aten.silu.default", {}, [](double x) { return x / (1 + std::exp(-x)); }},
        Unary{"aten.relu.default", {}, [](double x) { return std::max(x, 0.0); }},
        Unary{"aten.gelu.default", {}, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
        Unary{"aten.gelu.default",
              {{"approximate", R"({"as_string":"tanh"})"}},
              [](double x) {
                  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
              }},
        Unary{"aten.add.Tensor",
              {{"other", number(0.25)}, {"alpha", integer(2)}},
              [](double x) { return x + 0.5; }},
        Unary{"aten.rsub.Scalar",
              {{"other", number(0.25)}, {"alpha", integer(2)}},
              [](double x) { return 0.25 - 2 * x; }},
        Unary{"aten.mul.Tensor", {{"other", number(0.1)}}, [](double x) { return x * 0.1; }},
        Unary{"aten.div.Tensor_mode",
              {{"other", number(0.5)}, {"rounding_mode", R"({"as_string":"floor"})"}},
              [](double x) { return std::floor(x / 0.5); }},
        Unary{"aten.div.Tensor_mode",
              {{"other", number(0.5)}, {"rounding_mode", R"({"as_string":"trunc"})"}},
              [](double x) { return std::trunc(x / 0.5); }},
        Unary{"aten.pow.Tensor_Scalar", {{"exponent", integer(3)}}, [](double x) { return x * x * x; }},
        Unary{"aten.pow.Tensor_Scalar",
              {{"exponent", number(0.5)}},
              [](double x) { return std::sqrt(x); },
              kTiny},
        Unary{"aten.pow.Tensor_Scalar",
              {{"exponent", number(1.7)}},
              [](double x) { return std::pow(x, 1.7); },
              kTiny},
        Unary{"aten.clamp.default",
              {{"min", number(-0.5)}, {"max", number(0.5)}},
              [](double x) { return std::clamp(x, -0.5, 0.5); }},
        Unary{"aten.clamp.default", {{"min", R"({"as_none":true})"}, {"max", integer(1)}}, [](double x) {
                  return std::min(x, 1.0);
              }}));

TEST(ImportPointwise, IntegersFollowPython) {
    const Given x = {DType::I64, {4}, {-7, -4, 0, 7}};
    const Args args = {{"self", tensor("x0")}, {"other", integer(4)}};
    EXPECT_EQ(run("aten.floor_divide.default", {x}, args, DType::I64, {4}), (Elements{-2, -1, 0, 1}));
    EXPECT_EQ(run("aten.remainder.Scalar", {x}, args, DType::I64, {4}), (Elements{1, 0, 0, 3}));
    EXPECT_EQ(run("aten.div.Tensor", {x}, args, DType::F32, {4}), (Elements{-1.75, -1, 0, 1.75}));
}

TEST(ImportPointwise, LargeIntegersStayExact) {
    const std::int64_t large = (std::int64_t{1} << 53) - 1;
    const Given x = {DType::I64, {2}, {static_cast<double>(large), 3}};
    EXPECT_EQ(
        run("aten.eq.Scalar", {x}, {{"self", tensor("x0")}, {"other", integer(large)}}, DType::Bool, {2}),
        (Elements{1, 0}));
}

TEST(ImportPointwise, ComparesWithNumbersRoundedToTheTensorsType) {
    const Elements x = from_bytes(to_bytes({0.1, 0.2}, DType::BF16).data(), 2, DType::BF16);
    EXPECT_NE(x[0], 0.1);
    EXPECT_EQ(run("aten.eq.Scalar", {{DType::BF16, {2}, x}}, {{"self", tensor("x0")}, {"other", number(0.1)}},
                  DType::Bool, {2}),
              (Elements{1, 0}));
}

TEST(ImportPointwise, RemainderRoundsItsNumberToTheTensorsType) {
    const Given x = {DType::BF16, {1}, {-1.203125}};  // 4 times 0.3 in bf16
    EXPECT_EQ(
        run("aten.remainder.Scalar", {x}, {{"self", tensor("x0")}, {"other", number(0.3)}}, DType::BF16, {1}),
        (Elements{0}));
}

TEST(ImportPointwise, ComparesAndSelects) {
    const Given x = {DType::F32, {3}, {1, 2, 3}}, y = {DType::F32, {3}, {2, 2, 2}};
    const Args args = {{"self", tensor("x0")}, {"other", tensor("x1")}};
    EXPECT_EQ(run("aten.gt.Tensor", {x, y}, args, DType::Bool, {3}), (Elements{0, 0, 1}));
    EXPECT_EQ(run("aten.ge.Tensor", {x, y}, args, DType::Bool, {3}), (Elements{0, 1, 1}));
    EXPECT_EQ(run("aten.ne.Tensor", {x, y}, args, DType::Bool, {3}), (Elements{1, 0, 1}));
    const Given mask = {DType::Bool, {3}, {1, 0, 1}};
    EXPECT_EQ(
        run("aten.where.self", {mask, x, y},
            {{"condition", tensor("x0")}, {"self", tensor("x1")}, {"other", tensor("x2")}}, DType::F32, {3}),
        (Elements{1, 2, 3}));
    EXPECT_EQ(run("aten.logical_not.default", {x}, {{"self", tensor("x0")}}, DType::Bool, {3}),
              (Elements{0, 0, 0}));
}

TEST(ImportPointwise, TriangleKeepsOneSideOfTheDiagonal) {
    const Given x = {DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6}};
    const Args args = {{"self", tensor("x0")}, {"diagonal", integer(1)}};
    EXPECT_EQ(run("aten.tril.default", {x}, args, DType::F32, {2, 3}), (Elements{1, 2, 0, 4, 5, 6}));
    EXPECT_EQ(run("aten.triu.default", {x}, args, DType::F32, {2, 3}), (Elements{0, 2, 3, 0, 0, 6}));
}

// The other tables: what PyTorch's argument means.

TEST(ImportViews, SliceWithoutAnEndReachesTheEnd) {
    const Given x = {DType::F32, {4}, {1, 2, 3, 4}};
    EXPECT_EQ(run("aten.slice.Tensor", {x}, {{"self", tensor("x0")}, {"start", integer(1)}}, DType::F32, {3}),
              (Elements{2, 3, 4}));
}

TEST(ImportViews, RepeatTilesEveryDimension) {
    const Given x = {DType::F32, {2}, {1, 2}};
    EXPECT_EQ(run("aten.repeat.default", {x}, {{"self", tensor("x0")}, {"repeats", integers({2, 2})}},
                  DType::F32, {2, 4}),
              (Elements{1, 2, 1, 2, 1, 2, 1, 2}));
}

TEST(ImportViews, StackAddsADimension) {
    const Given x = {DType::F32, {2}, {1, 2}}, y = {DType::F32, {2}, {3, 4}};
    EXPECT_EQ(run("aten.stack.default", {x, y},
                  {{"tensors", R"({"as_tensors":[{"name":"x0"},{"name":"x1"}]})"}, {"dim", integer(1)}},
                  DType::F32, {2, 2}),
              (Elements{1, 3, 2, 4}));
}

TEST(ImportCreation, MakesTensorsOfTheResultsShape) {
    EXPECT_EQ(run("aten.arange.start_step", {},
                  {{"start", integer(2)}, {"end", integer(9)}, {"step", integer(3)}}, DType::I64, {3}),
              (Elements{2, 5, 8}));
    EXPECT_EQ(
        run("aten.full.default", {}, {{"size", integers({2})}, {"fill_value", number(0.5)}}, DType::F32, {2}),
        (Elements{0.5, 0.5}));
    EXPECT_EQ(run("aten.ones.default", {}, {{"size", integers({2})}}, DType::I64, {2}), (Elements{1, 1}));
}

TEST(ImportReductions, MeanAndVariance) {
    const Given x = {DType::F32, {2, 2}, {1, 3, 2, 8}};
    const Args args = {{"self", tensor("x0")}, {"dim", integers({-1})}, {"keepdim", R"({"as_bool":true})"}};
    EXPECT_EQ(run("aten.mean.dim", {x}, args, DType::F32, {2, 1}), (Elements{2, 5}));
    EXPECT_EQ(run("aten.var.correction", {x}, args, DType::F32, {2, 1}), (Elements{2, 18}));
    EXPECT_EQ(run("aten.any.dim", {x}, {{"self", tensor("x0")}, {"dim", integer(0)}}, DType::Bool, {2}),
              (Elements{1, 1}));
    EXPECT_EQ(run("aten.max.default", {x}, {{"self", tensor("x0")}}, DType::F32, {}), (Elements{8}));
}

TEST(ImportReductions, Norms) {
    const Elements x = random(6), weight = random(3), bias = random(3);
    Elements layer, rms;
    for (std::size_t row = 0; row < 6; row += 3) {
        const double mean = (x[row] + x[row + 1] + x[row + 2]) / 3;
        double variance = 0, squares = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            variance += std::pow(x[row + i] - mean, 2) / 3;
            squares += std::pow(x[row + i], 2) / 3;
        }
        for (std::size_t i = 0; i < 3; ++i) {
            layer.push_back((x[row + i] - mean) / std::sqrt(variance + 1e-3) * weight[i] + bias[i]);
            rms.push_back(x[row + i] / std::sqrt(squares + 1e-3) * weight[i]);
        }
    }
    const std::vector<Given> operands = {
        {DType::F32, {2, 3}, x}, {DType::F32, {3}, weight}, {DType::F32, {3}, bias}};
    Args args = {{"input", tensor("x0")},
                 {"normalized_shape", integers({3})},
                 {"weight", tensor("x1")},
                 {"eps", number(1e-3)}};
    expect_near(run("aten.rms_norm.default", operands, args, DType::F32, {2, 3}), rms);
    args.emplace_back("bias", tensor("x2"));
    expect_near(run("aten.layer_norm.default", operands, args, DType::F32, {2, 3}), layer);
}

TEST(ImportProducts, AddmmScalesBothTerms) {
    const std::vector<Given> operands = {
        {DType::F32, {2}, {1, 2}}, {DType::F32, {1, 2}, {3, 4}}, {DType::F32, {2, 2}, {5, 6, 7, 8}}};
    const Args args = {{"self", tensor("x0")},
                       {"mat1", tensor("x1")},
                       {"mat2", tensor("x2")},
                       {"beta", number(0.5)},
                       {"alpha", integer(2)}};
    EXPECT_EQ(run("aten.addmm.default", operands, args, DType::F32, {1, 2}), (Elements{86.5, 101}));
}

TEST(ImportProducts, AttentionDefaultsToTheUsualScale) {
    const Elements q = {1, 0, 0, 2}, v = {1, 2, 3, 4, 5, 6, 7, 8};
    const Elements k = {2, 0, 0, 0, 0, 0, 0, 0};
    const double weight = std::exp(1) / (std::exp(1) + 1);
    Elements wanted;
    for (std::size_t d = 0; d < 4; ++d) wanted.push_back(weight * v[d] + (1 - weight) * v[4 + d]);
    expect_near(
        run("aten.scaled_dot_product_attention.default",
            {{DType::F32, {1, 1, 1, 4}, q}, {DType::F32, {1, 1, 2, 4}, k}, {DType::F32, {1, 1, 2, 4}, v}},
            {{"query", tensor("x0")}, {"key", tensor("x1")}, {"value", tensor("x2")}}, DType::F32,
            {1, 1, 1, 4}),
        wanted);
}

TEST(ImportIndexing, WritesRowsAndSlices) {
    const Given x = {DType::F32, {3, 2}, {1, 2, 3, 4, 5, 6}}, row = {DType::F32, {2}, {7, 8}};
    const Args args = {
        {"self", tensor("x0")}, {"src", tensor("x1")}, {"dim", integer(0)}, {"index", integer(-1)}};
    EXPECT_EQ(run("aten.select_scatter.default", {x, row}, args, DType::F32, {3, 2}),
              (Elements{1, 2, 3, 4, 7, 8}));
    const Given rows = {DType::F32, {1, 2}, {7, 8}}, at = {DType::I64, {1}, {1}};
    EXPECT_EQ(
        run("aten.index_copy.default", {x, at, rows},
            {{"self", tensor("x0")}, {"dim", integer(0)}, {"index", tensor("x1")}, {"source", tensor("x2")}},
            DType::F32, {3, 2}),
        (Elements{1, 2, 7, 8, 5, 6}));
    EXPECT_EQ(run("aten.index_select.default", {x, at},
                  {{"self", tensor("x0")}, {"dim", integer(0)}, {"index", tensor("x1")}}, DType::F32, {1, 2}),
              (Elements{3, 4}));
}

TEST(ImportIndexing, CopyTakesTheShapeAndTheTypeOfItsTarget) {
    const Given x = {DType::I64, {2}, {1, 2}}, source = {DType::F32, {}, {7.9}};
    EXPECT_EQ(run("aten.copy.default", {x, source}, {{"self", tensor("x0")}, {"src", tensor("x1")}},
                  DType::I64, {2}),
              (Elements{7, 7}));
}

}  // namespace
}  // namespace stretto
