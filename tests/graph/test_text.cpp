#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "graph/text.h"
#include "support/generators.h"
#include "support/mutation.h"

namespace stretto {
namespace {

namespace gen = generators;

constexpr std::string_view kGraph = R"(%0 = input user "ids" : i64[1, 1]
%1 = input state "cache" : bf16[8, 64]
%2 = input constant "one" : f32[1]
%3 = pointwise : bf16[1, 64] from "model.embed" "aten.embedding.default" {
    a0 = %0 : i64 [1:0, 1:0]
    a1 = %1 : bf16 [1:0, 64:1] indirect 8:64
    x0 = load a0 : i64
    x1 = load a1 x0 : bf16
    x2 = const 0.5 : bf16
    x3 = mul x1 x2 : bf16
}
%4 = reduce max [64] : f32[1] {
    a0 = %3 : bf16 [1:64, 64:1]
    x0 = load a0 : bf16
    x1 = cast x0 : f32
}
%5 = contract [1, 1, 8, 64] : bf16[1, 8] {
    a %3 : bf16 [1:0, 1:64, 8:0, 64:1]
    b %1 : bf16 [1:0, 1:0, 8:64, 64:1]
}
%6 = attention [1, 2, 1, 8, 32] scale 0.125 : bf16[1, 2, 1, 32] {
    query %3 : bf16 [1:0, 2:32, 1:0, 8:0, 32:1]
    key %1 : bf16 [1:0, 2:32, 1:0, 8:64, 32:1]
    value %1 : bf16 [1:0, (1:0, 2:32), 1:0, 8:64{0..6}, 32:1] + 64
    mask {
        x0 = index 3 : i64
        x1 = const 5 : i64
        x2 = le x0 x1 : bool
    }
    fresh {
        row {
            x0 = const 5 : i64
        }
        key {
            a0 = %3 : bf16 [1:0, 2:32, 8:0, 32:1]
            x0 = load a0 : bf16
        }
    }
}
%7 = update %1 [1, 64] : bf16[8, 64] from "model.cache" "" {
    store %1 : bf16 [1:0, 64:1] indirect 8:64 at x0 = {
        a0 = %0 : i64 [1:0, 64:0]
        a1 = %3 : bf16 [1:0, 64:1]
        x0 = load a0 : i64
        x1 = load a1 : bf16
    }
}
output %5 "logits"
output %7 "cache" state %1
bytes %2 hex "0000803f"
)";

std::string error_of(std::string_view text) {
    try {
        (void)parse_graph(text);
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

TEST(GraphText, ReadsAsItIsWritten) { EXPECT_EQ(to_text(parse_graph(kGraph)), kGraph); }

TEST(GraphText, AnExampleHasTheStructuresThatItShows) {
    const Graph graph = parse_graph(kGraph);
    ASSERT_EQ(graph.nodes.size(), 8U);
    EXPECT_EQ(graph.nodes[3].source, (Source{"model.embed", "aten.embedding.default"}));
    const auto& update = std::get<Update>(graph.nodes[7].op);
    EXPECT_EQ(update.state, ValueId(1));
    EXPECT_EQ(update.indices, std::vector<std::int32_t>{0});
    EXPECT_EQ(graph.outputs[1].state_input, ValueId(1));
    EXPECT_FALSE(graph.outputs[0].state_input.valid());
    EXPECT_EQ(graph.constant(ValueId(2))->size(), 4U);
}

TEST(GraphText, AMaskedDigitShowsWhatItKeeps) {
    const IndexMap map{{{{12, 64, 3, 9}}, {atom(4, 16), atom(2, 0)}}, 7};
    EXPECT_EQ(to_text(map), "[12:64{3..9}, (4:16, 2:0)] + 7");
    EXPECT_EQ(parse_index_map(to_text(map)), map);
}

TEST(GraphText, ASharedSubexpressionIsWrittenOnce) {
    Expr expr;
    std::int32_t node = expr.index(0);
    for (int doubling = 0; doubling < 60; ++doubling) node = expr.apply(Op::Add, {node, node});
    const std::string text = to_text(expr);
    EXPECT_LT(text.size(), 4000U);
    EXPECT_EQ(parse_expr(text), expr);
}

TEST(GraphText, ConstantsKeepAllBitsOfTheirType) {
    for (const std::string node : {"x0 = const 9007199254740993 : i64", "x0 = const 1e-45 : f64",
                                   "x0 = const -inf : f32", "x0 = const nan : f32", "x0 = const 1 : bool"}) {
        EXPECT_EQ(to_text(parse_expr("{" + node + "}")), "{\n    " + node + "\n}");
    }
}

TEST(GraphText, ErrorsNameThePlace) {
    EXPECT_EQ(
        error_of("%0 = input user \"x\" : f32[4]\n%1 = pointwse : f32[4] {}"),
        "graph text, line 2, column 6: expected an operation: input, pointwise, reduce, contract, attention, "
        "update, found 'pointwse'");
    EXPECT_EQ(error_of("%0 = input user \"x\" : f33[4]"),
              "graph text, line 1, column 23: expected an element type, found 'f33'");
    EXPECT_EQ(error_of("%1 = input user \"x\" : f32[4]"),
              "graph text, line 1, column 1: expected '%0', the next one of its table, found '%'");
    EXPECT_EQ(
        error_of("%0 = input owner \"x\" : f32[4]"),
        "graph text, line 1, column 12: expected a role: parameter, state, constant, user, found 'owner'");
}

TEST(GraphText, ANodeMayOnlyUseEarlierNodes) {
    EXPECT_EQ(error_of("%0 = pointwise : f32[4] {\n    x0 = neg x0 : f32\n}"),
              "graph text, line 2, column 14: expected an earlier label such as x0, found 'x0'");
    EXPECT_EQ(error_of("%0 = pointwise : f32[4] {\n    x0 = load a0 : f32\n}"),
              "graph text, line 2, column 15: expected an earlier label such as a0, found 'a0'");
}

RC_GTEST_PROP(GraphText, ExpressionsRoundTrip, ()) {
    const Expr expr = *gen::any([] { return gen::pick_expr(4); });
    RC_ASSERT(parse_expr(to_text(expr)) == expr);
}

RC_GTEST_PROP(GraphText, GraphsRoundTrip, ()) {
    const Graph graph = *gen::any(gen::pick_graph);
    RC_ASSERT(parse_graph(to_text(graph)) == graph);
}

TEST(GraphText, DamageIsRefusedOrHarmless) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        expect_survives_damage(std::string(kGraph), seed, parse_graph,
                               [](const Graph& g) { return to_text(g); });
    }
}

}  // namespace
}  // namespace stretto
