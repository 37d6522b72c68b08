#include <gtest/gtest.h>

#include <random>

#include "import/program_json.h"

namespace stretto {
namespace {

std::string import_error(const ProgramJson& program, std::map<std::string, HostTensor> tensors = {}) {
    return error_of([&] { (void)import_program(program.text(), std::move(tensors)); });
}

/// A program of one operation on one vector of two.
ProgramJson one(const std::string& op, const std::vector<std::pair<std::string, std::string>>& more,
                DType result = DType::F32, const Shape& shape = {2}) {
    ProgramJson program;
    std::vector<std::pair<std::string, std::string>> args = {{"self", tensor("x")}};
    args.insert(args.end(), more.begin(), more.end());
    program.user("x", DType::F32, {2}).node(op, args, "y", result, shape, "layers.0").output("y");
    return program;
}

TEST(ImportErrors, ListEveryUnsupportedOperation) {
    ProgramJson program;
    program.user("x", DType::F32, {2});
    for (const char* layer : {"layers.0", "layers.1", "layers.1", "layers.2", "layers.3"}) {
        program.node("aten.cumprod.default", {{"self", tensor("x")}}, std::string("y") + layer, DType::F32,
                     {2}, layer);
    }
    program.node("aten.silu_.default", {{"self", tensor("x")}}, "z", DType::F32, {2}, "act");
    program.node("aten.sinh.default", {{"self", tensor("x")}}, "w", DType::F32, {2});
    EXPECT_EQ(
        import_error(program),
        "the program uses 3 operations that are not supported:\n"
        "  aten.cumprod.default (5 calls) in layers.0, layers.1, layers.2: the nearest that is supported is "
        "aten.cumsum\n"
        "  aten.silu_.default (1 call) in act: changes its operand in place; call run_decompositions() "
        "before saving\n"
        "  aten.sinh.default (1 call): the nearest that is supported is aten.sin\n"
        "keep these operations out of the compiled part, or add them to a table in src/import/lower_*.cpp");
}

TEST(ImportErrors, NameTheArgument) {
    EXPECT_EQ(import_error(one("aten.unsqueeze.default", {})),
              "aten.unsqueeze.default at layers.0: argument 'dim' is missing");
    EXPECT_EQ(import_error(one("aten.unsqueeze.default", {{"dim", number(0.5)}})),
              "aten.unsqueeze.default at layers.0: argument 'dim' must be a fixed integer");
    EXPECT_EQ(import_error(one("aten.unsqueeze.default", {{"dim", R"({"as_sym_int":{"as_name":"s0"}})"}})),
              "aten.unsqueeze.default at layers.0: argument 'dim' must be a fixed integer");
    EXPECT_EQ(import_error(one("aten.add.Tensor", {{"other", tensor("nowhere")}})),
              "aten.add.Tensor at layers.0: its operand 'nowhere' is no tensor of the program, or a result "
              "that is not "
              "supported");
}

TEST(ImportErrors, SayWhichFormOfAnOperationIsMissing) {
    EXPECT_EQ(import_error(one("aten.histc.default", {})),
              "aten.histc.default at layers.0: histc needs min < max: bins that depend on the data are not "
              "supported");
}

TEST(ImportErrors, ReportResultsThatDifferFromPyTorchs) {
    EXPECT_EQ(import_error(one("aten.neg.default", {}, DType::F32, {3})),
              "aten.neg.default at layers.0: result 0 is f32 [2], PyTorch says f32 [3]");
}

TEST(ImportErrors, ComeFromTheBuilderWithTheSameSource) {
    EXPECT_EQ(
        import_error(one("aten.select.int", {{"dim", integer(0)}, {"index", integer(5)}}, DType::F32, {})),
        "index 5 is outside dimension 0 of shape [2]\n  in aten.select.int at layers.0");
}

TEST(ImportErrors, NameTensorsThatDoNotFit) {
    ProgramJson program;
    program.parameter("fc.weight", DType::F32, {2}).output("held_0");
    EXPECT_EQ(import_error(program, {{"fc.weight", host_tensor(DType::F32, {3}, {1, 2, 3})}}),
              "tensor 'fc.weight' is f32 [3] of 12 bytes; the program needs f32 [2] of 8 bytes");
}

TEST(ImportErrors, RejectSymbolicSizes) {
    ProgramJson program;
    program.user("x", DType::F32, {2}).output("x");
    std::string text = program.text();
    const std::string size = R"("sizes":[{"as_int":2}])";
    text.replace(text.find(size), size.size(), R"("sizes":[{"as_expr":{"expr_str":"s77"}}])");
    EXPECT_EQ(error_of([&] { (void)import_program(text, {}); }),
              "input 'x' has the symbolic size s77; export without dynamic shapes");
}

TEST(ImportErrors, RejectElementTypesThatDoNotExistHere) {
    ProgramJson program;
    program.user("x", DType::F32, {2}).output("x");
    std::string text = program.text();
    text.replace(text.find(R"("dtype":7)"), 9, R"("dtype":2)");
    EXPECT_EQ(error_of([&] { (void)import_program(text, {}); }),
              "input 'x': PyTorch's element type number 2 is not supported; use bool, uint8, int32, int64, "
              "float16, "
              "bfloat16, float32 or float64");
}

TEST(ImportErrors, NameTheFieldOfBadJson) {
    EXPECT_EQ(error_of([] { (void)import_program("{\"a\": ", {}); }),
              "exported program: not valid JSON at byte 7");
    EXPECT_EQ(error_of([] { (void)import_program("[]", {}); }), "exported program: expected an object");
    EXPECT_EQ(error_of([] { (void)import_program("{}", {}); }),
              "exported program: field 'schema_version' is missing");
    EXPECT_EQ(error_of([] { (void)import_program(R"({"schema_version":{"major":9,"minor":1}})", {}); }),
              "exported program: schema_version: schema version 9 is not supported, only 8; export again "
              "with PyTorch "
              "2.11 to 2.13");
    ProgramJson program;
    program.call("aten.neg.default", {{"self", R"({"as_tensor":{"name":3}})"}}, "");
    EXPECT_EQ(
        import_error(program),
        "exported program: graph_module.graph.nodes[0].inputs[0].arg.as_tensor.name: expected a string");
}

TEST(ImportErrors, RejectSizesThatCannotBe) {
    ProgramJson program;
    program.user("x", DType::F32, {std::int64_t{1} << 40, std::int64_t{1} << 40}).output("x");
    EXPECT_EQ(import_error(program),
              "exported program: graph_module.graph.tensor_values.x.sizes[1]: not a plausible size");
}

/// Damage of any kind ends in a UserError or in a program, never in a crash.
TEST(ImportErrors, SurviveDamage) {
    ProgramJson program;
    program.parameter("w", DType::BF16, {4, 3})
        .buffer("cache", DType::F32, {2, 4})
        .user("i", DType::I64, {1});
    program.user("x", DType::BF16, {1, 3});
    program.node("aten.linear.default", {{"input", tensor("x")}, {"weight", tensor("held_0")}}, "y",
                 DType::BF16, {1, 4});
    program.node("aten._to_copy.default", {{"self", tensor("y")}}, "z", DType::F32, {1, 4});
    program.node("aten.index_put.default",
                 {{"self", tensor("held_1")},
                  {"indices", R"({"as_optional_tensors":[{"as_tensor":{"name":"i"}}]})"},
                  {"values", tensor("z")}},
                 "next", DType::F32, {2, 4});
    program.node("aten.sum.dim_IntList", {{"self", tensor("next")}, {"dim", integers({-1})}}, "sum",
                 DType::F32, {2});
    const std::string text = program.mutation("next", "cache").output("sum").text();
    EXPECT_EQ(import_error(program), "no error");

    std::mt19937 engine(11);
    std::uniform_int_distribution<std::size_t> place(0, text.size() - 1);
    const std::string alphabet = "0123456789-{}[]\",:aset";
    int rejected = 0;
    for (int i = 0; i < 4000; ++i) {
        std::string damaged = text;
        if (i % 4 == 0) damaged.resize(place(engine));
        if (i % 4 != 0) damaged[place(engine)] = alphabet[place(engine) % alphabet.size()];
        if (i % 4 == 3) damaged.erase(place(engine), 9);
        if (error_of([&] { (void)import_program(damaged, {}); }) != "no error") ++rejected;
    }
    EXPECT_GT(rejected, 1000);
}

}  // namespace
}  // namespace stretto
