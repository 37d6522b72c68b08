#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "import/program_json.h"

namespace stretto {
namespace {

const Input& input_named(const Graph& graph, const std::string& name) {
    for (const Node& node : graph.nodes) {
        const auto* input = std::get_if<Input>(&node.op);
        if (input != nullptr && input->name == name) return *input;
    }
    throw InternalError("no input " + name);
}

ProgramJson doubled(const std::string& operand, DType dtype, const Shape& shape) {
    ProgramJson program;
    program.node("aten.add.Tensor", {{"self", tensor(operand)}, {"other", tensor(operand)}}, "sum", dtype,
                 shape, "layers.0");
    return program;
}

/// All elements of output number `i`.
Elements run(const Imported& program, std::map<std::string, Elements> inputs, std::size_t i = 0) {
    for (const auto& [name, held] : program.tensors) {
        inputs.emplace(name, from_bytes(held.bytes.get(), volume(held.shape), held.dtype));
    }
    return evaluate(program.graph, inputs)[program.graph.outputs.at(i).value.index()];
}

TEST(ImportProgram, ComputesWhatTheProgramSays) {
    ProgramJson program;
    program.parameter("fc.weight", DType::F32, {2, 3}).parameter("fc.bias", DType::F32, {2});
    program.user("x", DType::F32, {1, 3});
    program.node("aten.linear.default",
                 {{"input", tensor("x")}, {"weight", tensor("held_0")}, {"bias", tensor("held_1")}}, "y",
                 DType::F32, {1, 2});
    program.node("aten.relu.default", {{"self", tensor("y")}}, "z", DType::F32, {1, 2}).output("z");
    const Imported imported =
        import_program(program.text(), {{"fc.weight", host_tensor(DType::F32, {2, 3}, {1, 2, 3, -4, -5, -6})},
                                        {"fc.bias", host_tensor(DType::F32, {2}, {0.5, 0.25})}});
    EXPECT_EQ(run(imported, {{"x", {1, 10, 100}}}), (Elements{321.5, 0}));
}

TEST(ImportProgram, GivesEveryInputItsRole) {
    ProgramJson program = doubled("held_2", DType::F32, {2});
    program.parameter("weight", DType::F32, {2})
        .buffer("table", DType::F32, {2})
        .buffer("cache", DType::F32, {2});
    program.constant("lifted", DType::F32, {2}).user("x", DType::F32, {2});
    program.mutation("sum", "cache").output("sum");
    const HostTensor two = host_tensor(DType::F32, {2}, {1, 2});
    const Imported imported = import_program(
        program.text(), {{"weight", two}, {"table", two}, {"cache", two}, {"lifted", two}, {"unused", two}});
    EXPECT_EQ(input_named(imported.graph, "weight").role, Role::Parameter);
    EXPECT_EQ(input_named(imported.graph, "table").role, Role::Parameter);
    EXPECT_EQ(input_named(imported.graph, "cache").role, Role::State);
    EXPECT_EQ(input_named(imported.graph, "lifted").role, Role::Constant);
    EXPECT_EQ(input_named(imported.graph, "x").role, Role::User);
    EXPECT_EQ(imported.tensors.size(), 3U);
    EXPECT_EQ(imported.user_inputs, (std::vector<std::string>{"x"}));
}

TEST(ImportProgram, AMutatedBufferIsUpdated) {
    ProgramJson program = doubled("held_0", DType::F32, {2});
    program.buffer("cache", DType::F32, {2}).mutation("sum", "cache");
    const Imported imported =
        import_program(program.text(), {{"cache", host_tensor(DType::F32, {2}, {1, 2})}});
    ASSERT_EQ(imported.graph.outputs.size(), 1U);
    EXPECT_TRUE(imported.graph.outputs[0].state_input.valid());
    EXPECT_EQ(run(imported, {}), (Elements{2, 4}));
}

TEST(ImportProgram, AMutatedArgumentIsStateThatTheCallerBinds) {
    ProgramJson program = doubled("x", DType::F32, {2});
    program.user("x", DType::F32, {2});
    program.output_spec(R"({"user_input_mutation":{"arg":{"name":"sum"},"user_input_name":"x"}})");
    const Imported imported = import_program(program.text(), {});
    EXPECT_EQ(input_named(imported.graph, "x").role, Role::State);
    EXPECT_EQ(imported.user_inputs, (std::vector<std::string>{"x"}));
    EXPECT_EQ(imported.user_states, (std::vector<std::string>{"x"}));
}

TEST(ImportProgram, FixedArgumentsKeepTheirPlace) {
    ProgramJson program = doubled("x", DType::F32, {2});
    program.input_spec(R"({"constant_input":{"name":"flag","value":{"as_bool":true}}})");
    program.user("x", DType::F32, {2})
        .output("sum")
        .output_spec(R"({"user_output":{"arg":{"as_none":true}}})");
    const Imported imported = import_program(program.text(), {});
    EXPECT_EQ(imported.user_inputs, (std::vector<std::string>{"", "x"}));
    EXPECT_EQ(imported.user_outputs, (std::vector<std::string>{"sum", ""}));
}

TEST(ImportProgram, TensorsMayBeBoundLater) {
    ProgramJson program = doubled("held_0", DType::F32, {2});
    program.parameter("weight", DType::F32, {2}).output("sum");
    const Imported imported = import_program(program.text(), {});
    EXPECT_EQ(input_named(imported.graph, "weight").role, Role::Parameter);
    EXPECT_TRUE(imported.tensors.empty());
}

TEST(ImportProgram, NamesAreUnique) {
    ProgramJson program = doubled("x", DType::F32, {2});
    program.parameter("x", DType::F32, {2})
        .user("x", DType::F32, {2})
        .output("sum")
        .output("sum")
        .output("x");
    const Imported imported = import_program(program.text(), {});
    EXPECT_EQ(imported.user_inputs, (std::vector<std::string>{"x_1"}));
    EXPECT_EQ(imported.user_outputs, (std::vector<std::string>{"sum", "sum_1", "x_2"}));
}

TEST(ImportProgram, NodesKnowTheirModuleWithoutSlices) {
    ProgramJson program;
    program.user("x", DType::F32, {2});
    program.node("aten.neg.default", {{"self", tensor("x")}}, "y", DType::F32, {2},
                 "model.layers.slice(None, 30, None).3.mlp");
    const Imported imported = import_program(program.output("y").text(), {});
    EXPECT_EQ(imported.graph.nodes[1].source, (Source{"model.layers.3.mlp", "aten.neg.default"}));
}

TEST(ImportProgram, DropsRunTimeChecks) {
    ProgramJson program = doubled("x", DType::F32, {2});
    program.user("x", DType::F32, {2}).output("sum");
    program.call("aten._assert_tensor_metadata.default", {{"a", tensor("x")}}, "");
    EXPECT_EQ(import_program(program.text(), {}).graph.nodes.size(), 2U);
}

TEST(ImportProgram, ReadsResultsThatAreLists) {
    ProgramJson program;
    program.user("x", DType::F32, {4}).value("a", DType::F32, {1}).value("b", DType::F32, {3});
    program.call("aten.split_with_sizes.default", {{"self", tensor("x")}, {"split_sizes", integers({1, 3})}},
                 R"({"as_tensors":[{"name":"a"},{"name":"b"}]})");
    const Imported imported = import_program(program.output("a").output("b").text(), {});
    EXPECT_EQ(run(imported, {{"x", {1, 2, 3, 4}}}, 1), (Elements{2, 3, 4}));
}

TEST(ImportProgram, ReadsInfinityAsPyTorchWritesIt) {
    ProgramJson program;
    program.user("x", DType::F32, {2}).user("m", DType::Bool, {2});
    program.node("aten.masked_fill.Scalar",
                 {{"self", tensor("x")}, {"mask", tensor("m")}, {"value", R"({"as_float":"-Infinity"})"}},
                 "y", DType::F32, {2});
    const Elements y = run(import_program(program.output("y").text(), {}), {{"x", {1, 2}}, {"m", {0, 1}}});
    EXPECT_EQ(y[0], 1);
    EXPECT_TRUE(std::isinf(y[1]) && y[1] < 0);
}

TEST(ImportProgram, OperationsAreListedInOrder) {
    const auto names = supported_operations();
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), "aten.scaled_dot_product_attention"));
}

}  // namespace
}  // namespace stretto
