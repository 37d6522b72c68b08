#include <gtest/gtest.h>

#include "fuse/shift_parts.h"
#include "fuse/text.h"

namespace stretto {
namespace {

/// The sum of exp(x - m) over a row of 29 parts, m its maximum, in two stages each, with other regions in between or behind.
std::string two_stages(const std::string& between = "", const std::string& behind = "") {
    return R"(buffer b0 = state "x" : f32[29, 1733]
buffer b1 = arena "part maxima" : f32[29]
buffer b2 = arena "maximum" : f32[1]
buffer b3 = arena "part sums" : f32[29]
buffer b4 = output "sum" : f32[1]
buffer b5 = output "other" : f32[29]
region r0 = reduce [1, 29, 1733] kept 2 "part maxima" {
    max { a0 = b0 : f32 [1:0, 29:1733, 1733:1]  x0 = load a0 : f32 }
    store b1 : f32 [1:0, 29:1, 1733:0] = { x0 = acc 0 : f32 }
}
region r1 = reduce [1, 29] kept 1 "maximum" {
    max { a0 = b1 : f32 [1:0, 29:1]  x0 = load a0 : f32 }
    store b2 : f32 [1:0, 29:0] = { x0 = acc 0 : f32 }
}
)" + between +
           R"(region r)" + (between.empty() ? "2" : "3") + R"( = reduce [1, 29, 1733] kept 2 "part sums" {
    sum {
        a0 = b0 : f32 [1:0, 29:1733, 1733:1]
        a1 = b2 : f32 [1:0, 29:0, 1733:0]
        x0 = load a0 : f32
        x1 = load a1 : f32
        x2 = sub x0 x1 : f32
        x3 = exp x2 : f32
    }
    store b3 : f32 [1:0, 29:1, 1733:0] = { x0 = acc 0 : f32 }
}
region r)" +
           (between.empty() ? "3" : "4") +
           R"( = reduce [1, 29] kept 1 "sum" {
    sum { a0 = b3 : f32 [1:0, 29:1]  x0 = load a0 : f32 }
    store b4 : f32 [1:0, 29:0] = { x0 = acc 0 : f32 }
}
)" + behind;
}

const Expr& term_of(const RegionGraph& graph, std::size_t region) {
    return std::get<ReduceRegion>(graph.regions[region].body).reductions.front().term;
}

std::string shifted(const std::string& text) {
    RegionGraph graph = parse_region_graph(text);
    shift_parts(graph);
    return to_text(graph);
}

/// As it is printed where nothing is changed.
std::string unchanged(const std::string& text) { return to_text(parse_region_graph(text)); }

TEST(ShiftParts, PartsOfASumOfExponentialsNeedTheirOwnMaximumOnly) {
    RegionGraph graph = parse_region_graph(two_stages());
    shift_parts(graph);
    const Expr& part = term_of(graph, 2);
    ASSERT_EQ(part.accesses.size(), 2U);
    EXPECT_EQ(part.accesses[1].source, 1) << "the maxima of parts";
    const Expr& row = term_of(graph, 3);
    ASSERT_EQ(row.accesses.size(), 3U);
    EXPECT_EQ(row.accesses[0].source, 3);
    EXPECT_EQ(row.accesses[1].source, 1);
    EXPECT_EQ(row.accesses[2].source, 2) << "the row's maximum";
}

TEST(ShiftParts, SumsOfPartsThatOthersReadStayAsTheyAre) {
    const std::string text = two_stages("", R"(region r4 = map [29] "other" {
    store b5 : f32 [29:1] = { a0 = b3 : f32 [29:1]  x0 = load a0 : f32 }
}
)");
    EXPECT_EQ(shifted(text), unchanged(text));
}

TEST(ShiftParts, ElementsThatChangeInBetweenAreOthers) {
    const std::string text = two_stages(R"(region r2 = map [29, 1733] "x" {
    store b0 : f32 [29:1733, 1733:1] = { x0 = const 1 : f32 }
}
)");
    EXPECT_EQ(shifted(text), unchanged(text));
}

TEST(ShiftParts, TheMaximumOfOtherElementsIsNone) {
    std::string text = two_stages();
    const std::string load = "a0 = b0 : f32 [1:0, 29:1733, 1733:1]\n        a1";
    ASSERT_NE(text.find(load), std::string::npos);
    text.replace(text.find(load), load.size(), "a0 = b0 : f32 [1:0, 29:1, 1733:29]\n        a1");
    EXPECT_EQ(shifted(text), unchanged(text));
}

}  // namespace
}  // namespace stretto
