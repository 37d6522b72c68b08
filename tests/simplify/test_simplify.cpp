#include <gtest/gtest.h>

#include "graph/text.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

std::string simplified(std::string_view text) { return to_text(simplify(parse_graph(text))); }

TEST(Simplify, ARepeatedValueIsComputedOnce) {
    const Graph graph = simplify(parse_graph(R"(
        %0 = input user "x" : f32[4]
        %1 = pointwise : f32[4] { a0 = %0 : f32 [4:1]  x0 = load a0 : f32  x1 = exp x0 : f32 }
        %2 = pointwise : f32[4] { a0 = %0 : f32 [4:1]  x0 = load a0 : f32  x1 = exp x0 : f32 }
        output %1 "first"
        output %2 "second"
    )"));
    EXPECT_EQ(graph.nodes.size(), 2U);
    EXPECT_EQ(graph.outputs[0].value, graph.outputs[1].value);
}

TEST(Simplify, AValueThatNothingNeedsIsRemovedButInputsStay) {
    EXPECT_EQ(simplified(R"(
        %0 = input user "x" : f32[4]
        %1 = input user "unused" : f32[4]
        %2 = pointwise : f32[4] { a0 = %1 : f32 [4:1]  x0 = load a0 : f32  x1 = exp x0 : f32 }
        output %0 "y"
    )"),
              "%0 = input user \"x\" : f32[4]\n"
              "%1 = input user \"unused\" : f32[4]\n"
              "output %0 \"y\"\n");
}

TEST(Simplify, AConversionIsReadThroughItsViews) {
    EXPECT_EQ(simplified(R"(
        %0 = input user "x" : bf16[2, 4]
        %1 = pointwise : f32[2, 4] {
            a0 = %0 : bf16 [2:4, 4:1]  x0 = load a0 : bf16  x1 = cast x0 : f32
        }
        %2 = pointwise : f32[4, 2] {
            a0 = %1 : f32 [4:1, 2:4]  x0 = load a0 : f32  x1 = exp x0 : f32
        }
        output %2 "y"
    )"),
              R"(%0 = input user "x" : bf16[2, 4]
%1 = pointwise : f32[4, 2] {
    a0 = %0 : bf16 [4:1, 2:4]
    x0 = load a0 : bf16
    x1 = cast x0 : f32
    x2 = exp x1 : f32
}
output %1 "y"
)");
}

TEST(Simplify, AProductOfConstantsIsFolded) {
    EXPECT_EQ(simplified(R"(
        %0 = pointwise : f32[4] { x0 = const 3 : f32  x1 = const 0.5 : f32  x2 = mul x0 x1 : f32 }
        output %0 "y"
    )"),
              "%0 = pointwise : f32[4] {\n    x0 = const 1.5 : f32\n}\noutput %0 \"y\"\n");
}

TEST(Simplify, WorkIsNotRepeatedByItsReaders) {
    const Graph graph = simplify(parse_graph(R"(
        %0 = input user "x" : f32[4]
        %1 = pointwise : f32[4] { a0 = %0 : f32 [4:1]  x0 = load a0 : f32  x1 = exp x0 : f32 }
        %2 = pointwise : f32[8, 4] { a0 = %1 : f32 [8:0, 4:1]  x0 = load a0 : f32  x1 = neg x0 : f32 }
        output %2 "y"
    )"));
    EXPECT_EQ(graph.nodes.size(), 3U);
}

}  // namespace
}  // namespace stretto
