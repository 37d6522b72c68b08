#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fuse/fuse.h"
#include "fuse/join_reduces.h"
#include "fuse/passes.h"
#include "fuse/text.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

constexpr std::int64_t kRows = 1024;

RegionGraph joined(const std::string& text) {
    RegionGraph graph = parse_region_graph(text);
    join_reduces(graph, builtin_machine("h200"));
    return graph;
}

/// Results of each reduction of the graph, in order.
std::vector<std::size_t> results(const RegionGraph& graph) {
    std::vector<std::size_t> counts;
    for (const Region& region : graph.regions) {
        if (const auto* reduce = std::get_if<ReduceRegion>(&region.body))
            counts.push_back(reduce->reductions.size());
    }
    return counts;
}

using Counts = std::vector<std::size_t>;

/// The sums of the rows of x and, of y, what `second` says of row r, or of another row.
struct TwoReductions {
    std::int64_t rows = kRows;
    std::string x_type = "f32";
    std::string second_rows = "[{0}, 768] kept 1";
    std::string y = "b0 : f32 [{0}:768, 768:1]";      ///< what the second takes
    std::string row_sum = "b2 : f32 [{0}:1, 768:0]";  ///< the sum that it subtracts
    std::string target = "b3 : f32 [{0}:1, 768:0]";   ///< where its results go
    std::string between;                              ///< regions between the two, r1 first
    bool knows = true;                                ///< the first's results

    [[nodiscard]] std::string text() const {
        const std::string element = "x0 = load a0 : f32";
        const std::string head = fmt::format(
            R"(buffer b0 = input "x" : {1}[{0}, 768]
buffer b1 = arena "y" : f32[{0}, 768]
buffer b2 = arena "sums" : f32[{0}]
buffer b3 = output "out" : f32[{0}]
buffer b4 = arena "other" : f32[{0}]
region r0 = reduce [{0}, 768] kept 1 "sum" {{
    sum {{ a0 = b0 : {1} [{0}:768, 768:1]  x0 = load a0 : {1}  x1 = cast x0 : f32 }}
    store b2 : f32 [{0}:1, 768:0] = {{ x0 = acc 0 : f32 }}
}}
)",
            rows, x_type);
        std::string body = "region r{1} = reduce " + second_rows + " \"second\" {{\n    max {{ a0 = " + y;
        body += knows ? "  a1 = " + row_sum + "  x0 = load a0 : f32  x1 = load a1 : f32  x2 = sub x0 x1 : f32"
                      : "  x0 = load a0 : f32";
        body += " }}\n    store " + target + " = {{ x0 = acc 0 : f32 }}\n}}\n";
        const auto regions = std::count(between.begin(), between.end(), '\n');
        return (x_type == "f32" ? replaced(head) : head) + fmt::format(fmt::runtime(between), rows) +
               fmt::format(fmt::runtime(body), rows, regions + 1);
    }

private:
    /// Without a cast that changes nothing.
    static std::string replaced(std::string text) {
        const std::string cast = "  x1 = cast x0 : f32";
        return text.erase(text.find(cast), cast.size());
    }
};

TEST(JoinReduces, AVarianceIsASecondPassBehindItsMean) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {kRows, 768});
    const Tensor sum = b.reduce(ReduceOp::Sum, x, {1}, true, DType::F32);
    const Tensor mean = b.apply(Op::Div, {sum, b.full({1}, 768, DType::F32)}, DType::F32);
    const Tensor far = b.apply(Op::Sub, {x, mean}, DType::F32);
    b.output(b.reduce(ReduceOp::Sum, b.apply(Op::Mul, {far, far}, DType::F32), {1}, true, DType::F32), "var");
    const RegionGraph graph = fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Fused);
    ASSERT_EQ(graph.regions.size(), 1U);
    EXPECT_EQ(passes_of(std::get<ReduceRegion>(graph.regions[0].body)).size(), 2U);
    EXPECT_EQ(graph.buffers.size(), 2U) << "nobody else needs the sum: " << to_text(graph);
}

TEST(JoinReduces, WhatIsNormalizedFollowsTheStatisticsOfItsRow) {
    const auto regions_of = [](std::int64_t rows) {
        GraphBuilder b;
        const Tensor x = b.input(Role::User, "x", DType::F32, {rows, 768});
        const Tensor sum = b.reduce(ReduceOp::Sum, x, {1}, true, DType::F32);
        const Tensor mean = b.apply(Op::Div, {sum, b.full({1}, 768, DType::F32)}, DType::F32);
        const Tensor far = b.apply(Op::Sub, {x, mean}, DType::F32);
        const Tensor squares =
            b.reduce(ReduceOp::Sum, b.apply(Op::Mul, {far, far}, DType::F32), {1}, true, DType::F32);
        b.output(b.apply(Op::Mul, {far, b.apply(Op::Rsqrt, {squares}, DType::F32)}, DType::F32), "y");
        return fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Fused);
    };
    const RegionGraph graph = regions_of(kRows);
    ASSERT_EQ(graph.regions.size(), 1U) << to_text(graph);
    const auto& region = std::get<ReduceRegion>(graph.regions[0].body);
    EXPECT_TRUE(region.stores.empty());
    EXPECT_EQ(region.element_stores.size(), 1U);
    EXPECT_EQ(regions_of(8).regions.size(), 2U) << "few rows are normalized by all threads";
}

TEST(JoinReduces, SumsOfTheSameRowsShareAPass) {
    TwoReductions program;
    program.knows = false;
    const RegionGraph graph = joined(program.text());
    ASSERT_EQ(results(graph), Counts{2});
    const std::vector<Pass> passes = passes_of(std::get<ReduceRegion>(graph.regions[0].body));
    ASSERT_EQ(passes.size(), 1U);
    EXPECT_EQ(passes[0].expr.accesses.size(), 1U) << "an element is loaded once";
}

TEST(JoinReduces, AReductionThatWaitsStandsBehindThoseThatDoNot) {
    TwoReductions program;
    std::string text = program.text();
    text.replace(text.find("arena \"other\""), 13, "output \"other\"");
    text += fmt::format(
        "region r2 = reduce [{0}, 768] kept 1 \"third\" {{\n    min {{ a0 = b0 : f32 [{0}:768, 768:1]  x0 = "
        "load "
        "a0 : f32 }}\n    store b4 : f32 [{0}:1, 768:0] = {{ x0 = acc 0 : f32 }}\n}}\n",
        kRows);
    const RegionGraph graph = joined(text);
    ASSERT_EQ(results(graph), Counts{3});
    const auto& region = std::get<ReduceRegion>(graph.regions[0].body);
    const std::vector<Pass> passes = passes_of(region);
    ASSERT_EQ(passes.size(), 2U);
    EXPECT_EQ(passes[0].reductions, (Range{0, 2}));
    EXPECT_EQ(region.reductions[1].op, ReduceOp::Min);
    EXPECT_EQ(region.reductions[2].op, ReduceOp::Max);
    for (const Store& store : region.stores)
        EXPECT_EQ(store.expr.nodes[0].integer, graph[BufferId(store.target.source)].name == "out" ? 2 : 1);
}

TEST(JoinReduces, AResultThatOthersReadIsStored) {
    TwoReductions program;
    program.between =
        "region r1 = map [{0}] \"reader\" {{ store b4 : f32 [{0}:1] = {{ a0 = b2 : f32 [{0}:1] x0 = load a0 "
        ": f32 "
        "}} }}\n";
    const RegionGraph graph = joined(program.text());
    EXPECT_EQ(results(graph), Counts{2});
    EXPECT_EQ(std::get<ReduceRegion>(graph.regions[0].body).stores.size(), 2U);
    EXPECT_EQ(graph.regions[1].name, "reader") << "it stays behind what it reads";
}

TEST(JoinReduces, ResultsOfOtherRowsAreNotKnown) {
    TwoReductions program;
    program.row_sum = "b2 : f32 [{0}:-1, 768:0] + 1023";
    EXPECT_EQ(results(joined(program.text())), (Counts{1, 1}));
    program.row_sum = "b2 : f32 [{0}:0, 768:1]";
    EXPECT_EQ(results(joined(program.text())), (Counts{1, 1}));
}

TEST(JoinReduces, WhatStandsBetweenTheTwoKeepsThemApart) {
    TwoReductions program;
    program.between =
        "region r1 = map [{0}] \"turned\" {{ store b4 : f32 [{0}:-1] + 1023 = {{ a0 = b2 : f32 [{0}:1] x0 = "
        "load "
        "a0 : f32 }} }}\n";
    program.row_sum = "b4 : f32 [{0}:1, 768:0]";
    EXPECT_EQ(results(joined(program.text())), (Counts{1, 1}));
}

TEST(JoinReduces, NeitherWaitsForWhatOnlyTheOtherReads) {
    TwoReductions program;
    program.between =
        "region r1 = map [{0}, 768] \"later\" {{ store b1 : f32 [{0}:768, 768:1] = {{ x0 = index 1 : i64 x1 "
        "= cast "
        "x0 : f32 }} }}\n";
    EXPECT_EQ(results(joined(program.text())), Counts{2});
    program.y = "b1 : f32 [{0}:768, 768:1]";
    EXPECT_EQ(results(joined(program.text())), (Counts{1, 1})) << "the first has no need to wait for y";
}

TEST(JoinReduces, FewRowsThatDoNotKnowEachOtherAreSideBySide) {
    TwoReductions program;
    program.rows = 64;
    EXPECT_EQ(results(joined(program.text())), Counts{2});
    program.knows = false;
    EXPECT_EQ(results(joined(program.text())), (Counts{1, 1}));
}

TEST(JoinReduces, TermsThatAreTakenInAnotherOrderStayApart) {
    TwoReductions program;
    program.x_type = "bf16";
    program.between =
        "region r1 = map [{0}, 768] \"later\" {{ store b1 : f32 [{0}:768, 768:1] = {{ a0 = b2 : f32 [{0}:1, "
        "768:0] "
        "x0 = load a0 : f32 }} }}\n";
    program.y = "b0 : bf16 [{0}:768, 768:1]";
    std::string text = program.text();
    const std::string load = "x0 = load a0 : f32  x1 = load a1";
    text.replace(text.find(load), load.size(), "x0 = load a0 : bf16  x1 = load a1");
    EXPECT_EQ(results(joined(text)), Counts{2});
    program.y = "b0 : bf16 [{0}:1, 768:{0}]";  // a column
    text = program.text();
    text.replace(text.find(load), load.size(), "x0 = load a0 : bf16  x1 = load a1");
    EXPECT_EQ(results(joined(text)), (Counts{1, 1}));
}

TEST(JoinReduces, OneThatChangesWhatTheOtherReadsStaysApart) {
    TwoReductions program;
    program.target = "b0 : f32 [{0}:768, 768:0]";
    EXPECT_EQ(results(joined(program.text())), (Counts{1, 1}));
}

}  // namespace
}  // namespace stretto
