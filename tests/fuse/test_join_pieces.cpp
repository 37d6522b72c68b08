#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fuse/join_pieces.h"
#include "fuse/text.h"
#include "support/memory.h"
#include "support/region_oracle.h"

namespace stretto {
namespace {

/// exp(x) [6, 4] and -y [2, 6, 4], whose two blocks follow each other in a row, joined to [6, 12] and read once. `left` and
/// `right` are the types in which the pieces are stored, `joining` the statements that choose between loads x3 and x5.
std::string joined(const std::string& joining, const std::string& left = "f32",
                   const std::string& more = "") {
    return fmt::format(R"(
buffer b0 = input "x" : f32[6, 4]
buffer b1 = input "y" : f32[2, 6, 4]
buffer b2 = arena "left" : {0}[6, 4]
buffer b3 = arena "right" : bf16[2, 6, 4]
buffer b4 = arena "joined" : bf16[6, 12]
buffer b5 = output "z" : f32[6, 12]
buffer b6 = output "other" : f32[6, 4]
region r0 = map [6, 4] "left" {{
    store b2 : {0} [6:4, 4:1] = {{ a0 = b0 : f32 [6:4, 4:1]  x0 = load a0 : f32  x1 = exp x0 : f32 }}
}}
region r1 = map [2, 6, 4] "right" {{
    store b3 : bf16 [2:24, 6:4, 4:1] = {{ a0 = b1 : f32 [2:24, 6:4, 4:1]  x0 = load a0 : f32  x1 = neg x0 : f32 }}
}}
region r2 = map [6, 12] "joined" {{
    store b4 : bf16 [6:12, 12:1] = {{
        a0 = b2 : {0} [6:4, 12:1{{0..4}}]
        a1 = b3 : bf16 [6:4, (3:24{{1..3}}, 4:1)] + -24
        x0 = index 1 : i64
        {1}
    }}
}}
region r3 = map [6, 12] "z" {{
    store b5 : f32 [6:12, 12:1] = {{ a0 = b4 : bf16 [6:12, 12:1]  x0 = load a0 : f32 }}
}}
{2})",
                       left, joining, more);
}

const char* const kEither = R"(
        x1 = const 4 : i64
        x2 = lt x0 x1 : bool
        x3 = load a0 : f32
        x4 = load a1 : f32
        x5 = select x2 x3 x4 : f32)";

/// Regions that are left, after a check that results stay.
std::size_t regions_after(const std::string& text) {
    RegionGraph graph = parse_region_graph(text);
    const BufferMemory memory(graph, 3);
    const auto inputs = memory.elements_by_name();
    const auto result = [&] {
        std::vector<Elements> elements;
        for (const Buffer& buffer : graph.buffers) elements.push_back(inputs.at(buffer.name));
        evaluate(graph, elements);
        return elements[buffer_named(graph, "z").index()];
    };
    const Elements before = result();
    store_pieces_joined(graph);
    EXPECT_EQ(result(), before) << to_text(graph);
    return graph.regions.size();
}

TEST(FuseJoinPieces, PiecesAreStoredWhereTheyAreRead) {
    EXPECT_EQ(regions_after(joined(kEither)), 3U);
    EXPECT_EQ(regions_after(joined(kEither, "bf16")), 3U);
    RegionGraph graph = parse_region_graph(joined(kEither));
    store_pieces_joined(graph);
    EXPECT_EQ(graph.buffers.size(), 5U) << to_text(graph);
}

TEST(FuseJoinPieces, ARoundingThatTheJoinedTypeDoesNotMakeKeepsItsPiece) {
    EXPECT_EQ(regions_after(joined(kEither, "f16")), 4U);
}

TEST(FuseJoinPieces, APieceThatAnythingElseReadsKeepsItsPlace) {
    EXPECT_EQ(regions_after(joined(kEither, "f32", R"(
region r4 = map [6, 4] "other" {
    store b6 : f32 [6:4, 4:1] = { a0 = b2 : f32 [6:4, 4:1]  x0 = load a0 : f32 }
})")),
              5U);
}

TEST(FuseJoinPieces, WhatIsMoreThanAChoiceStays) {
    EXPECT_EQ(regions_after(joined(R"(
        x1 = const 4 : i64
        x2 = lt x0 x1 : bool
        x3 = load a0 : f32
        x4 = load a1 : f32
        x5 = abs x4 : f32
        x6 = select x2 x3 x5 : f32)")),
              4U);
}

TEST(FuseJoinPieces, AChoiceElsewhereThanAtTheEndsStays) {
    for (const int end : {3, 5, 8}) {
        EXPECT_EQ(regions_after(joined(fmt::format(R"(
        x1 = const {} : i64
        x2 = lt x0 x1 : bool
        x3 = load a0 : f32
        x4 = load a1 : f32
        x5 = select x2 x3 x4 : f32)",
                                                   end))),
                  4U)
            << end;
    }
}

TEST(FuseJoinPieces, TheOtherWayAroundThereIsNothingToRead) {
    EXPECT_EQ(regions_after(joined(R"(
        x1 = const 4 : i64
        x2 = le x1 x0 : bool
        x3 = load a0 : f32
        x4 = load a1 : f32
        x5 = select x2 x3 x4 : f32)")),
              4U);
}

}  // namespace
}  // namespace stretto
