#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fuse/fuse.h"
#include "fuse/pad_rows.h"
#include "fuse/text.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

/// A map copies x to y, [rows, 259] each; a reduction sums what `read` takes of y; a map takes one element of each row of y.
struct Program {
    std::int64_t rows = 64;
    std::string copied = "[64:259, 259:1]";  ///< of x and of y
    std::string read = "[64:259, 2:128, 128:1] + 3";
    std::string value = "x0 = load a0 : bf16";
};

RegionGraph regions(const Program& program) {
    return parse_region_graph(fmt::format(
        R"(buffer b0 = input "x" : bf16[{0}, 259]
buffer b1 = arena "y" : bf16[{0}, 1, 259]
buffer b2 = output "sums" : f32[{0}, 2]
buffer b3 = input "index" : i64[{0}]
buffer b4 = output "found" : f32[{0}]
region r0 = map {1} "write" {{
    store b1 : bf16 {2} = {{ a0 = b0 : bf16 {2}  {4} }}
}}
region r1 = reduce [{0}, 2, 128] kept 2 "read" {{
    sum {{ a0 = b1 : bf16 {3}  x0 = load a0 : bf16 }}
    store b2 : f32 [{0}:2, 2:1, 128:0] = {{ x0 = acc 0 : f32 }}
}}
region r2 = map [{0}] "find" {{
    store b4 : f32 [{0}:1] = {{
        a0 = b3 : i64 [{0}:1]
        a1 = b1 : bf16 [{0}:259] indirect 259:1
        x0 = load a0 : i64
        x1 = load a1 x0 : bf16
    }}
}}
)",
        program.rows,
        program.copied.find(',') == std::string::npos ? fmt::format("[{}]", program.rows * 259)
                                                      : fmt::format("[{}, 259]", program.rows),
        program.copied, program.read, program.value));
}

RegionGraph padded(RegionGraph graph, std::int64_t least = kLeastPaddedRow) {
    pad_rows(graph, least);
    return graph;
}

Access access_to(const RegionGraph& graph, std::size_t region, std::int32_t buffer) {
    for (const Use& use : uses(graph.regions.at(region))) {
        if (use.access->source == buffer) return *use.access;
    }
    ADD_FAILURE() << "region " << region << " does not touch b" << buffer;
    return {};
}

TEST(FusePadRows, AllAccessesMoveOverToTheLongerRows) {
    const RegionGraph graph = padded(regions({}));
    EXPECT_EQ(graph.buffers[1].shape, (Shape{64, 1, 264}));
    EXPECT_EQ(graph.buffers[0].shape, (Shape{64, 259})) << "rows of an input are the caller's";
    EXPECT_EQ(access_to(graph, 0, 1).map, (IndexMap{{{atom(64, 264)}, {atom(259, 1)}}, 0}));
    EXPECT_EQ(access_to(graph, 0, 0).map, (IndexMap{{{atom(64, 259)}, {atom(259, 1)}}, 0}));
    EXPECT_EQ(access_to(graph, 1, 1).map, (IndexMap{{{atom(64, 264)}, {atom(2, 128)}, {atom(128, 1)}}, 3}));
    const Access found = access_to(graph, 2, 1);
    EXPECT_EQ(found.map, (IndexMap{{{atom(64, 264)}}, 0}));
    EXPECT_EQ(found.indirect, (std::vector<Access::Indirect>{{1, 259}}));
}

TEST(FusePadRows, AFlatViewGetsADigitForTheRows) {
    Program program;
    program.copied = "[16576:1]";
    const RegionGraph graph = padded(regions(program));
    EXPECT_EQ(access_to(graph, 0, 1).map, (IndexMap{{{atom(64, 264), atom(259, 1)}}, 0}));
}

TEST(FusePadRows, AMaskedAccessKeepsItsMask) {
    // Of rows -1 to 62 the first is masked.
    RegionGraph graph = regions({});
    auto& term = std::get<ReduceRegion>(graph.regions[1].body).reductions.front().term;
    term.accesses[0].map = {{{{64, 259, 1, 64}}, {atom(2, 128)}, {atom(128, 1)}}, 3 - 259};
    graph = padded(graph);
    EXPECT_EQ(access_to(graph, 1, 1).map,
              (IndexMap{{{{64, 264, 1, 64}}, {atom(2, 128)}, {atom(128, 1)}}, 3 - 264}));
}

TEST(FusePadRows, RowsThatAnAccessCrossesStay) {
    Program program;
    program.read = "[64:200, 2:128, 128:1] + 3";
    const RegionGraph graph = regions(program);
    EXPECT_EQ(padded(graph), graph);
}

TEST(FusePadRows, ShortRowsASingleRowAndWholeOnesStay) {
    for (const Shape& shape : {Shape{64, 255}, Shape{1, 259}, Shape{259}, Shape{64, 264}, Shape{259, 1}}) {
        RegionGraph graph;
        graph.buffers.push_back({"y", DType::F32, shape, BufferRole::Arena, nullptr});
        EXPECT_EQ(padded(graph), graph);
    }
}

TEST(FusePadRows, RowsStayWhereAMapTakesThemInOneWithRowsOfAnInput) {
    // From 32768 positions on, a map takes groups.
    Program program{128, "[128:259, 259:1]", "[128:259, 2:128, 128:1] + 3"};
    const RegionGraph large = regions(program);
    EXPECT_EQ(padded(large), large);
    program.value = "x0 = load a0 : bf16  x1 = index 1 : i64  x2 = cast x1 : f32  x3 = mul x0 x2 : f32";
    const RegionGraph by_row = padded(regions(program));
    EXPECT_EQ(by_row.buffers[1].shape, (Shape{128, 1, 264})) << "the map had no groups before";
}

TEST(FusePadRows, PartsOfAttentionStayBehindEachOther) {
    const RegionGraph graph = parse_region_graph(R"(buffer b0 = input "q" : f32[1, 2, 1, 33]
buffer b1 = state "k" : bf16[1, 2, 128, 33]
buffer b2 = arena "parts" : f32[4, 1, 2, 1, 35]
region r0 = attention [1, 2, 1, 128, 33] group 1 splits 4 scale 0.125 "attention" {
    query { a0 = b0 : f32 [1:0, 2:33, 1:0, 128:0, 33:1]  x0 = load a0 : f32 }
    key b1 : bf16 [1:0, 2:4224, 1:0, 128:33, 33:1]
    value b1 : bf16 [1:0, 2:4224, 1:0, 128:33, 33:1]
    out b2 : f32 [1:0, 2:35, 1:0, 128:0, 33:1]
}
)");
    EXPECT_EQ(padded(graph, 2), graph);
}

TEST(FusePadRows, LogitsOfAnOddVocabularyArePadded) {
    for (const Numerics numerics : {Numerics::Fused, Numerics::Exact}) {
        GraphBuilder b;
        const Tensor x = b.input(Role::User, "x", DType::BF16, {128, 64});
        const Tensor w = b.input(Role::Parameter, "w", DType::BF16, {259, 64});
        const Tensor logits = b.linear(x, w, std::nullopt);
        b.output(b.reduce(ReduceOp::Max, logits, {1}, false, DType::BF16), "largest");
        b.output(b.reduce(ReduceOp::Sum, logits, {1}, false, DType::F32), "sum");
        const RegionGraph graph = fuse(simplify(b.finish()), builtin_machine("h200"), numerics);
        const auto& product = std::get<MatMulRegion>(graph.regions.at(0).body);
        const Buffer& stored = graph[BufferId(product.stores.at(0).target.source)];
        EXPECT_EQ(stored.role, BufferRole::Arena);
        EXPECT_EQ(stored.shape.back(), 264);
    }
}

}  // namespace
}  // namespace stretto
