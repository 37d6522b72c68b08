#include <gtest/gtest.h>

#include "fuse/text.h"
#include "schedule/urgency.h"
#include "support/machines.h"
#include "support/region_text.h"
#include "tile/tile.h"

namespace stretto {
namespace {

std::vector<std::string> names_of(const TaskGraph& graph) {
    std::vector<std::string> names;
    for (const Region& region : graph.regions.regions) names.push_back(region.name);
    return names;
}

/// Region `name` of four tasks, which stores at `to` the elements of `from` in reverse order.
std::string reversal(const std::string& id, const std::string& name, const std::string& from,
                     const std::string& to) {
    return "region " + id + " = map [4096] \"" + name + "\" { store " + to +
           " : f32 [4096:1] = { a0 = " + from + " : f32 [4096:-1] + 4095 x0 = load a0 : f32 } }\n";
}

const std::string kBuffers = R"(
buffer b0 = input "x" : f32[4096]
buffer b1 = output "aside" : f32[4096]
buffer b2 = arena "1" : f32[4096]
buffer b3 = arena "2" : f32[4096]
buffer b4 = output "y" : f32[4096]
)";

TEST(Urgency, TheStartOfALongChainGoesFirstAndTheRestFillsItsGaps) {
    const std::string program = kBuffers + reversal("r0", "aside", "b0", "b1") +
                                reversal("r1", "first", "b0", "b2") + reversal("r2", "second", "b2", "b3") +
                                reversal("r3", "third", "b3", "b4");
    const TaskGraph graph = by_urgency(tile(parse_region_graph(program), h200_of(4)), h200_of(4));
    EXPECT_EQ(names_of(graph), (std::vector<std::string>{"first", "aside", "second", "third"}));
}

TEST(Urgency, TasksAndWhatTheyComeAfterMoveWithTheirRegions) {
    const std::string program = kBuffers + reversal("r0", "aside", "b0", "b1") +
                                reversal("r1", "first", "b0", "b2") + reversal("r2", "second", "b2", "b4");
    const TaskGraph before = tile(parse_region_graph(program), h200_of(4));
    const TaskGraph after = by_urgency(before, h200_of(4));
    EXPECT_EQ(after.tasks_of, (std::vector<Range>{{0, 4}, {4, 8}, {8, 12}}));
    for (std::size_t t = 0; t < 4; ++t) {
        EXPECT_EQ(after.tasks[t].writes, before.tasks[t + 4].writes);
        EXPECT_EQ(after.tasks[t + 4].writes, before.tasks[t].writes);
        // The second reversal reads what the first one's task at the other end wrote.
        const auto writer = static_cast<std::int64_t>(3 - t);
        EXPECT_EQ(before.tasks[t + 8].after, (std::vector<Range>{{writer + 4, writer + 5}}));
        EXPECT_EQ(after.tasks[t + 8].after, (std::vector<Range>{{writer, writer + 1}}));
        EXPECT_EQ(after.tasks[t].region, RegionId(0));
        EXPECT_EQ(after.tasks[t + 4].region, RegionId(1));
    }
}

const std::string kProductBuffers = R"(
buffer b5 = input "row" : bf16[1, 64]
buffer b6 = parameter "w" : bf16[64, 64]
buffer b7 = output "z" : bf16[1, 64]
buffer b8 = output "z8" : bf16[1, 64]
buffer b9 = output "z9" : bf16[1, 64]
)";

TEST(Urgency, AProgramThatStreamsWeightsKeepsItsOrder) {
    const std::string program = kBuffers + kProductBuffers + reversal("r0", "aside", "b0", "b1") +
                                reversal("r1", "first", "b0", "b2") + reversal("r2", "second", "b2", "b4") +
                                product_region("r3", 1, 64, 64, "b5", "b6", "b7");
    const TaskGraph graph = tile(parse_region_graph(program), h200_of(4));
    EXPECT_EQ(by_urgency(graph, h200_of(4)), graph);
}

TEST(Urgency, AProgramThatStreamsTheWeightsOfFewOfItsProductsIsOrdered) {
    const auto direct = [](const std::string& id, const std::string& y) {
        std::string region = product_region(id, 1, 64, 64, "b5", "b6", y);
        return region.replace(region.find(" streamed"), 9, "");
    };
    const std::string program = kBuffers + kProductBuffers + reversal("r0", "aside", "b0", "b1") +
                                reversal("r1", "first", "b0", "b2") + reversal("r2", "second", "b2", "b4") +
                                product_region("r3", 1, 64, 64, "b5", "b6", "b7") + direct("r4", "b8") +
                                direct("r5", "b9");
    const TaskGraph graph = by_urgency(tile(parse_region_graph(program), h200_of(4)), h200_of(4));
    EXPECT_EQ(names_of(graph).front(), "first");
    EXPECT_EQ(graph.tasks_of.size(), 6U);
}

}  // namespace
}  // namespace stretto
