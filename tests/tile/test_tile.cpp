#include <gtest/gtest.h>

#include <set>

#include "fuse/text.h"
#include "support/machines.h"
#include "support/region_text.h"
#include "tile/tile.h"
#include "tile/work.h"

namespace stretto {
namespace {

TaskGraph tiled(const std::string& text, std::int32_t workers = 4) {
    return tile(parse_region_graph(text), h200_of(workers));
}

const std::string kSquareThenShift = R"(
buffer b0 = input "x" : f32[2000]
buffer b1 = arena "square" : f32[2000]
buffer b2 = output "y" : f32[1000]
region r0 = map [2000] "square" {
    store b1 : f32 [2000:1] = { a0 = b0 : f32 [2000:1]  x0 = load a0 : f32  x1 = mul x0 x0 : f32 }
}
region r1 = map [1000] "shift" {
    store b2 : f32 [1000:1] = { a0 = b1 : f32 [1000:1] + 1000  x0 = load a0 : f32 }
}
)";

TEST(Tile, TasksOfARegionCoverItOnce) {
    const TaskGraph graph = tiled(kSquareThenShift);
    std::int64_t next = 0;
    for (std::int64_t t = graph.tasks_of[0].begin; t < graph.tasks_of[0].end; ++t) {
        const Task& task = graph.tasks[static_cast<std::size_t>(t)];
        ASSERT_EQ(task.writes.size(), 1U);
        EXPECT_EQ(task.writes[0].box, (Box{{next, task.tile[0].end}}));
        next = task.tile[0].end;
    }
    EXPECT_EQ(next, 2000);
}

TEST(Tile, AReaderComesAfterTheTasksThatWriteItsBytesOnly) {
    const TaskGraph graph = tiled(kSquareThenShift);
    ASSERT_EQ(graph.tasks_of[0], (Range{0, 4}));
    const Task& first = graph.tasks[static_cast<std::size_t>(graph.tasks_of[1].begin)];
    ASSERT_EQ(first.after.size(), 1U);
    EXPECT_EQ(first.after[0].begin, 1) << "bytes 1000.. begin in the second task, 512..1024";
}

TEST(Tile, AWriterComesAfterTheReadersOfTheOldValue) {
    const TaskGraph graph = tiled(R"(
buffer b0 = state "s" : f32[600]
buffer b1 = output "y" : f32[600]
region r0 = map [600] "read" {
    store b1 : f32 [600:1] = { a0 = b0 : f32 [600:1]  x0 = load a0 : f32 }
}
region r1 = map [600] "write" {
    store b0 : f32 [600:1] = { x0 = const 0 : f32 }
}
)");
    for (std::int64_t t = graph.tasks_of[1].begin; t < graph.tasks_of[1].end; ++t) {
        EXPECT_FALSE(graph.tasks[static_cast<std::size_t>(t)].after.empty());
    }
}

TEST(Tile, TwoWritersOfTheSameBytesKeepTheirOrder) {
    const TaskGraph graph = tiled(R"(
buffer b0 = output "y" : f32[10]
region r0 = map [10] "first" { store b0 : f32 [10:1] = { x0 = const 1 : f32 } }
region r1 = map [10] "second" { store b0 : f32 [10:1] = { x0 = const 2 : f32 } }
)");
    EXPECT_EQ(graph.tasks[1].after, (std::vector<Range>{{0, 1}}));
}

TEST(Tile, PlacesThatDependOnDataStayInOneTask) {
    const TaskGraph graph = tiled(R"(
buffer b0 = input "at" : i64[4]
buffer b1 = state "table" : f32[100, 512]
region r0 = map [4, 512] "scatter" {
    store b1 : f32 [4:0, 512:1] indirect 100:512 at x0 = {
        a0 = b0 : i64 [4:1, 512:0]  x0 = load a0 : i64  x1 = const 1 : f32
    }
}
)");
    ASSERT_EQ(graph.tasks.size(), 1U);
    EXPECT_TRUE(graph.tasks[0].writes[0].may);
    EXPECT_EQ(graph.tasks[0].writes[0].box, (Box{{0, 100}, {0, 512}}));
}

TEST(Tile, ProductsOfOneLeftSideShareTheWorkers) {
    const TaskGraph graph = tiled(
        "buffer b0 = input \"x\" : bf16[1, 64]\n"
        "buffer b1 = parameter \"w\" : bf16[96, 64]\n"
        "buffer b2 = parameter \"v\" : bf16[96, 64]\n"
        "buffer b3 = output \"y\" : bf16[1, 96]\n"
        "buffer b4 = output \"z\" : bf16[1, 96]\n" +
            product_region("r0", 1, 96, 64, "b0", "b1", "b3") +
            product_region("r1", 1, 96, 64, "b0", "b2", "b4"),
        8);
    EXPECT_EQ(graph.tasks.size(), 8U);
}

/// Operations of the one task of `rows` rows of 64 elements times a weight of 96.
double operations_of(std::int64_t rows) {
    const std::string m = std::to_string(rows);
    const TaskGraph graph = tiled("buffer b0 = input \"x\" : bf16[" + m +
                                      ", 64]\n"
                                      "buffer b1 = parameter \"w\" : bf16[96, 64]\n"
                                      "buffer b2 = output \"y\" : bf16[" +
                                      m + ", 96]\n" + product_region("r0", rows, 96, 64, "b0", "b1", "b2"),
                                  1);
    EXPECT_EQ(graph.tasks.size(), 1U);
    return WorkEstimate(graph).of(TaskId(0)).operations;
}

TEST(Tile, EightRowsOfPanelsAreMultipliedByTheInstructionsOfOne) {
    EXPECT_GT(operations_of(8), operations_of(1)) << "more is staged";
    EXPECT_LT(operations_of(8), 1.1 * operations_of(1));
}

TEST(Tile, ProductsInTilesCoverTheResultsOnce) {
    const TaskGraph graph = tiled(R"(
buffer b0 = input "x" : bf16[200, 64]
buffer b1 = parameter "w" : bf16[300, 64]
buffer b2 = output "y" : bf16[200, 300]
region r0 = matmul [1, 200, 300, 64] bf16 tiles 128 x 64 stages 3 "y" {
    a { a0 = b0 : bf16 [1:0, 200:64, 1:0, 64:1]  x0 = load a0 : bf16 }
    weight b1 : bf16 [1:0, 200:0, 300:64, 64:1]
    store b2 : bf16 [1:0, 200:300, 300:1, 64:0] = { x0 = acc 0 : f32 }
}
)");
    ASSERT_EQ(graph.tasks.size(), 10U);
    std::int64_t results = 0;
    std::set<std::pair<std::int64_t, std::int64_t>> begins;
    for (const Task& task : graph.tasks) {
        results += volume(task.writes.at(0).box);
        begins.emplace(task.tile[1].begin, task.tile[2].begin);
        EXPECT_EQ(task.reads.at(0).box, (Box{task.tile[1], {0, 64}}));
        EXPECT_EQ(task.reads.at(1).box, (Box{task.tile[2], {0, 64}}));
    }
    EXPECT_EQ(results, 200 * 300);
    EXPECT_EQ(begins.size(), 10U);
}

TEST(Tile, AStoreThatStepsOverElementsFillsSeveralBoxes) {
    const TaskGraph graph = tiled(
        "buffer b0 = input \"x\" : bf16[2, 8]\n"
        "buffer b1 = parameter \"w\" : bf16[8, 8]\n"
        "buffer b2 = output \"y\" : bf16[8, 2]\n" +
            product_region("r0", 2, 8, 8, "b0", "b1", "b2"),
        2);
    ASSERT_EQ(graph.tasks.size(), 2U);
    const std::vector<Footprint>& writes = graph.tasks[0].writes;
    ASSERT_EQ(writes.size(), 2U);
    EXPECT_EQ(writes[0].box, (Box{{0, 2}, {0, 2}})) << "columns 0..4 of row 0";
    EXPECT_EQ(writes[1].box, (Box{{4, 6}, {0, 2}})) << "columns 0..4 of row 1";
}

TEST(Tile, EveryWriteOfAProductIsExact) {
    const TaskGraph graph = tiled(
        "buffer b0 = input \"x\" : bf16[3, 64]\n"
        "buffer b1 = parameter \"w\" : bf16[50, 64]\n"
        "buffer b2 = output \"y\" : bf16[3, 50]\n" +
        product_region("r0", 3, 50, 64, "b0", "b1", "b2"));
    std::set<std::pair<std::int64_t, std::int64_t>> written;
    for (const Task& task : graph.tasks) {
        for (const Footprint& write : task.writes) {
            for (std::int64_t m = write.box[0].begin; m < write.box[0].end; ++m) {
                for (std::int64_t n = write.box[1].begin; n < write.box[1].end; ++n) {
                    EXPECT_TRUE(written.emplace(m, n).second) << m << ", " << n;
                }
            }
        }
    }
    EXPECT_EQ(written.size(), 150U);
}

}  // namespace
}  // namespace stretto
