#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "fuse/text.h"
#include "support/mutation.h"
#include "support/plan_generators.h"

namespace stretto {
namespace {

namespace gen = generators;

constexpr std::string_view kRegions = R"(buffer b0 = input "x" : bf16[1, 64]
buffer b1 = parameter "proj.weight" : bf16[8, 64]
buffer b2 = constant "half" : f32[1] hex "0000003f"
buffer b3 = arena "x#1" : f32[1, 64]
buffer b4 = state "cache" : bf16[8, 64]
buffer b5 = arena "partial" : f32[2, 1, 2, 1, 34]
buffer b6 = output "logits" : bf16[1, 8]
region r0 = map [1, 64] "scale#1" {
    store b3 : f32 [1:0, 64:1] = {
        a0 = b0 : bf16 [1:0, 64:1]
        a1 = b2 : f32 [1:0, 64:0]
        x0 = load a0 : bf16
        x1 = cast x0 : f32
        x2 = load a1 : f32
        x3 = mul x1 x2 : f32
    }
}
region r1 = reduce [1, 64] kept 1 "sum#2" {
    sum {
        a0 = b3 : f32 [1:0, 64:1]
        x0 = load a0 : f32
    }
    store b4 : bf16 [1:0] + 5 = {
        x0 = acc 0 : f32
        x1 = cast x0 : bf16
    }
}
region r2 = matmul [1, 1, 8, 64] bf16 streamed "proj#3" {
    stat {
        a0 = b3 : f32 [1:0, 1:64, 8:0, 64:1]
        x0 = load a0 : f32
        x1 = mul x0 x0 : f32
    } finish {
        x0 = acc 0 : f32
        x1 = rsqrt x0 : f32
    }
    a {
        a0 = b3 : f32 [1:0, 1:64, 8:0, 64:1]
        x0 = load a0 : f32
        x1 = stat 0 : f32
        x2 = mul x0 x1 : f32
    }
    weight b1 : bf16 [1:0, 1:0, 8:64, 64:1]
    store b6 : bf16 [1:0, 1:0, 8:1, 64:0] = {
        x0 = acc 0 : f32
    }
}
region r3 = attention [1, 2, 1, 8, 32] group 2 splits 2 scale 0.25 "attn#4" {
    query {
        a0 = b3 : f32 [1:0, 2:32, 1:0, 8:0, 32:1]
        x0 = load a0 : f32
    }
    key b4 : bf16 [1:0, 2:0, 1:0, 8:64, 32:1]
    value b4 : bf16 [1:0, 2:0, 1:0, 8:64, 32:1] + 32
    fresh {
        row {
            x0 = const 3 : i64
        }
        value {
            a0 = b3 : f32 [1:0, 2:0, 1:0, 8:0, 32:1]
            x0 = load a0 : f32
        }
    }
    length {
        x0 = const 6 : i64
    }
    out b5 : f32 [2:68, 1:68, 2:34, 1:34, 34:1]
}
)";

std::string error_of(std::string_view text) {
    try {
        (void)parse_region_graph(text);
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

TEST(RegionText, ReadsAsItIsWritten) { EXPECT_EQ(to_text(parse_region_graph(kRegions)), kRegions); }

TEST(RegionText, AMaskThatIsNotWrittenIsEmpty) {
    const RegionGraph graph = parse_region_graph(kRegions);
    const auto& attention = std::get<AttentionRegion>(graph.regions[3].body);
    EXPECT_TRUE(attention.mask.empty());
    EXPECT_EQ(attention.length.nodes.back().integer, 6);
}

TEST(RegionText, ConstantsCompareByTheirBytes) {
    const RegionGraph graph = parse_region_graph(kRegions);
    RegionGraph other = parse_region_graph(kRegions);
    EXPECT_NE(graph.buffers[2].bytes, other.buffers[2].bytes);
    EXPECT_EQ(graph, other);
    other.buffers[2].bytes = std::make_shared<const std::vector<std::byte>>(4);
    EXPECT_NE(graph, other);
}

TEST(RegionText, ErrorsNameThePlace) {
    EXPECT_EQ(error_of("buffer b0 = arena \"x\" : f32[4]\nregion r0 = mop [4] \"y\" {}"),
              "region text, line 2, column 13: expected a kind of region: map, reduce, matmul, attention, "
              "scored, found 'mop'");
    EXPECT_EQ(error_of("region r0 = reduce [4, 8] kept 3 \"y\" {}"),
              "region text, line 1, column 32: expected an integer from 0 to 2, found '3'");
    EXPECT_EQ(error_of("region r0 = map [4] \"y\" { store b0 : f32 [4:1] = {} }"),
              "region text, line 1, column 51: expected 'x0', the next one of its table, found '}'");
}

RC_GTEST_PROP(RegionText, RegionsRoundTrip, ()) {
    const RegionGraph graph = *gen::any(gen::pick_regions);
    RC_ASSERT(parse_region_graph(to_text(graph)) == graph);
}

TEST(RegionText, DamageIsRefusedOrHarmless) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        expect_survives_damage(std::string(kRegions), seed, parse_region_graph,
                               [](const RegionGraph& graph) { return to_text(graph); });
    }
}

}  // namespace
}  // namespace stretto
