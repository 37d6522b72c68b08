#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "fuse/text.h"
#include "schedule/placement.h"
#include "schedule/schedule.h"
#include "support/machines.h"
#include "support/region_text.h"
#include "tile/tile.h"

namespace stretto {
namespace {

/// Region `name` of one task for each 256 of `count` elements, which stores at `to` those of `from` in reverse order.
std::string reversal(const std::string& id, int count, const std::string& from, const std::string& to) {
    const std::string n = std::to_string(count);
    return "region " + id + " = map [" + n + "] \"" + id + "\" { store " + to + " : f32 [" + n +
           ":1] = { a0 = " + from + " : f32 [" + n + ":-1] + " + std::to_string(count - 1) +
           " x0 = load a0 : f32 } }\n";
}

std::string buffer(const std::string& id, const std::string& role, int count) {
    return "buffer " + id + " = " + role + " \"" + id + "\" : f32[" + std::to_string(count) + "]\n";
}

TEST(Fillers, LeaveTheWorkerOfAChainAlone) {
    Machine machine = h200_of(4);
    // Four maps of one task, each after the one before; beside them one of three tasks, which each take half a hop.
    const int wide = 3 * 256;
    machine.flops = 256 / (machine.counter_us / 2);
    const std::string program =
        buffer("b0", "input", wide) + buffer("b1", "output", wide) + buffer("b2", "arena", 256) +
        buffer("b3", "arena", 256) + buffer("b4", "arena", 256) + buffer("b5", "output", 256) +
        reversal("r0", 256, "b0", "b2") + reversal("r1", wide, "b0", "b1") + reversal("r2", 256, "b2", "b3") +
        reversal("r3", 256, "b3", "b4") + reversal("r4", 256, "b4", "b5");
    const Plan plan = schedule(tile(parse_region_graph(program), machine), machine);
    std::size_t wide_tasks = 0;
    for (const Worker& worker : plan.workers) {
        const auto runs = [&](std::string_view name) {
            return std::count_if(worker.queue.begin(), worker.queue.end(), [&](const Step& step) {
                return plan.graph.regions[plan.graph[step.task].region].name == name;
            });
        };
        EXPECT_LE(runs("r1"), 1);
        EXPECT_TRUE(runs("r2") == 0 || runs("r1") == 0);
        wide_tasks += static_cast<std::size_t>(runs("r1"));
    }
    EXPECT_EQ(wide_tasks, 3U);
}

TEST(Fillers, NeverGoBeforeATaskOfASmallerNumber) {
    const Machine machine = h200_of(1);
    // The last map needs nothing of the others: it would fit between any two of them.
    const std::string program =
        buffer("b0", "input", 256) + buffer("b1", "arena", 256) + buffer("b2", "arena", 256) +
        buffer("b3", "output", 256) + buffer("b4", "output", 256) + reversal("r0", 256, "b0", "b1") +
        reversal("r1", 256, "b1", "b2") + reversal("r2", 256, "b2", "b3") + reversal("r3", 256, "b0", "b4");
    const std::vector<std::vector<TaskId>> queues =
        place_tasks(tile(parse_region_graph(program), machine), machine);
    EXPECT_EQ(queues, (std::vector<std::vector<TaskId>>{{TaskId(0), TaskId(1), TaskId(2), TaskId(3)}}));
}

}  // namespace
}  // namespace stretto
