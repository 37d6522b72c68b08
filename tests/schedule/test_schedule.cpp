#include <gtest/gtest.h>

#include "base/error.h"
#include "fuse/text.h"
#include "schedule/schedule.h"
#include "support/machines.h"
#include "support/region_text.h"
#include "tile/tile.h"

namespace stretto {
namespace {

Plan planned(const std::string& text, const Machine& machine) {
    return schedule(tile(parse_region_graph(text), machine), machine);
}

/// x -> region 0 -> region 1 (-> region 2), each over the whole of `count` elements in reverse order of the one before,
/// so that every task needs others' results. The third also reads the first's result.
std::string chain(std::int64_t count, bool third) {
    const std::string n = std::to_string(count);
    std::string text = "buffer b0 = input \"x\" : f32[" + n + "]\nbuffer b1 = arena \"1\" : f32[" + n +
                       "]\nbuffer b2 = arena \"2\" : f32[1]\nbuffer b3 = output \"y\" : f32[" + n + "]\n";
    text += "region r0 = map [" + n + "] \"square\" { store b1 : f32 [" + n + ":1] = { a0 = b0 : f32 [" + n +
            ":1] x0 = load a0 : f32 x1 = mul x0 x0 : f32 } }\n";
    text += "region r1 = reduce [" + n + "] kept 0 \"sum\" { sum { a0 = b1 : f32 [" + n +
            ":1] x0 = load a0 : f32 } store b2 : f32 [" + n + ":0] = { x0 = acc 0 : f32 } }\n";
    if (third) {
        text += "region r2 = map [" + n + "] \"scale\" { store b3 : f32 [" + n + ":1] = { a0 = b1 : f32 [" +
                n + ":1] a1 = b2 : f32 [" + n +
                ":0] x0 = load a0 : f32 x1 = load a1 : f32 x2 = mul x0 x1 : f32 } }\n";
    }
    return text;
}

const Step& step_of(const Plan& plan, TaskId task) {
    for (const Worker& worker : plan.workers) {
        for (const Step& step : worker.queue) {
            if (step.task == task) return step;
        }
    }
    throw std::runtime_error("a task is on no worker");
}

TEST(Schedule, AReaderOfAWholeRegionWaitsForOneCounter) {
    const Plan plan = planned(chain(4096, false), h200_of(4));
    ASSERT_EQ(plan.graph.tasks.size(), 5U);
    ASSERT_EQ(plan.events.size(), 1U);
    EXPECT_EQ(plan.events[0].signals, 4U);
    EXPECT_EQ(step_of(plan, TaskId(4)).waits, (std::vector<Wait>{{EventId(0), 4}}));
}

TEST(Schedule, OneWorkerNeedsNoEvents) {
    const Plan plan = planned(chain(1024, true), h200_of(1));
    EXPECT_TRUE(plan.events.empty());
    for (const Edge& edge : plan.edges) EXPECT_EQ(edge.kind, HandOff::SameWorker);
}

TEST(Schedule, AWaitThatAnotherWaitImpliesIsLeftOut) {
    const Plan plan = planned(chain(1024, true), h200_of(4));
    const Range last = plan.graph.tasks_of[2];
    for (std::int64_t t = last.begin; t < last.end; ++t) {
        const auto& waits = step_of(plan, TaskId(t)).waits;
        for (const Wait& wait : waits) EXPECT_EQ(plan.events[wait.event.index()].name, "sum");
    }
}

TEST(Schedule, ABarrierIsTakenWhereItIsCheapest) {
    Machine machine = h200_of(4);
    machine.barrier_us = machine.counter_us / 2;
    const Plan plan = planned(chain(4096, false), machine);
    ASSERT_EQ(plan.edges.size(), 1U);
    EXPECT_EQ(plan.edges[0].kind, HandOff::Barrier);
    EXPECT_EQ(plan.events.at(0).kind, HandOff::Barrier);
}

TEST(Schedule, ReadersOfPartsWaitForTheirPartsOnly) {
    const Plan plan = planned(R"(
buffer b0 = input "x" : f32[1024]
buffer b1 = arena "1" : f32[1024]
buffer b2 = output "y" : f32[512]
region r0 = map [1024] "square" {
    store b1 : f32 [1024:1] = { a0 = b0 : f32 [1024:1]  x0 = load a0 : f32  x1 = mul x0 x0 : f32 }
}
region r1 = map [512] "second half" {
    store b2 : f32 [512:1] = { a0 = b1 : f32 [512:1] + 512  x0 = load a0 : f32 }
}
)",
                              h200_of(4));
    for (const Worker& worker : plan.workers) {
        for (const Step& step : worker.queue) {
            for (const Wait& wait : step.waits) EXPECT_LT(wait.target, 4U);
        }
    }
}

TEST(Schedule, ATaskThatComputesForLongKeepsItsWorkerToItself) {
    // A sum of a million terms, all of which are one element, and four tasks that store 1,024 elements each.
    const Plan plan = planned(R"(
buffer b0 = input "x" : f32[1]
buffer b1 = output "sum" : f32[1]
buffer b2 = output "y" : f32[4096]
region r0 = reduce [1048576] kept 0 "long" {
    sum { a0 = b0 : f32 [1048576:0]  x0 = load a0 : f32 }
    store b1 : f32 [1048576:0] = { x0 = acc 0 : f32 }
}
region r1 = map [4096] "short" {
    store b2 : f32 [4096:1] = { a0 = b0 : f32 [4096:0]  x0 = load a0 : f32 }
}
)",
                              h200_of(4));
    ASSERT_EQ(plan.graph.tasks_of[1].size(), 4);
    const TaskId sum(plan.graph.tasks_of[0].begin);
    const Worker& worker = plan.workers.front();
    EXPECT_EQ(worker.queue, (std::vector<Step>{{sum, {}, {}}}));
}

/// x -> product b3 -> product b5 -> product y, over rows of `rows` and the given width.
std::string products(std::int64_t rows, std::int64_t width) {
    const std::string w = std::to_string(width);
    const auto buffer = [&](int number, const std::string& role, const std::string& shape) {
        return "buffer b" + std::to_string(number) + " = " + role + " \"" + std::to_string(number) +
               "\" : bf16" + shape + "\n";
    };
    const std::string row = "[" + std::to_string(rows) + ", " + w + "]";
    const std::string weight = "[" + w + ", " + w + "]";
    return buffer(0, "input", row) + buffer(1, "parameter", weight) + buffer(2, "arena", row) +
           buffer(3, "parameter", weight) + buffer(4, "arena", row) + buffer(5, "parameter", weight) +
           buffer(6, "output", row) + product_region("r0", rows, width, width, "b0", "b1", "b2") +
           product_region("r1", rows, width, width, "b2", "b3", "b4") +
           product_region("r2", rows, width, width, "b4", "b5", "b6");
}

TEST(Schedule, SmallActivationsTravelAsWordsAndNeedNoEvents) {
    const Plan plan = planned(products(1, 576), h200_of(8));
    EXPECT_TRUE(plan.events.empty());
    ASSERT_EQ(plan.edges.size(), 2U);
    for (const Edge& edge : plan.edges) EXPECT_EQ(edge.kind, HandOff::Words);
    for (const Buffer& buffer : plan.graph.regions.buffers) {
        EXPECT_EQ(buffer.tagged, buffer.role == BufferRole::Arena) << buffer.name;
        EXPECT_FALSE(buffer.packed) << buffer.name;
    }
}

TEST(Schedule, WordsThatReadersAskForByTheThousandArePacked) {
    const Plan plan = planned(products(8, 576), h200_of(8));
    for (const Edge& edge : plan.edges) EXPECT_EQ(edge.kind, HandOff::Words);
    for (const Buffer& buffer : plan.graph.regions.buffers) {
        EXPECT_EQ(buffer.tagged, buffer.role == BufferRole::Arena) << buffer.name;
        EXPECT_EQ(buffer.packed, buffer.tagged) << buffer.name;
    }
}

TEST(Schedule, WideActivationsAreCounted) {
    for (const std::string& text : {products(1, 32768), products(8, 4096)}) {
        const Plan plan = planned(text, h200_of(8));
        for (const Edge& edge : plan.edges) EXPECT_EQ(edge.kind, HandOff::Counter);
        for (const Buffer& buffer : plan.graph.regions.buffers) EXPECT_FALSE(buffer.tagged);
    }
}

const std::string kProduct =
    "buffer b0 = input \"x\" : bf16[1, 1024]\n"
    "buffer b1 = parameter \"w\" : bf16[256, 1024]\n"
    "buffer b2 = output \"y\" : bf16[1, 256]\n" +
    product_region("r0", 1, 256, 1024, "b0", "b1", "b2");

TEST(Schedule, LoadsFollowTheQueueAndCoverEachTasksRows) {
    const Plan plan = planned(kProduct, h200_of(3));
    for (const Worker& worker : plan.workers) {
        std::size_t next = 0;
        for (const Step& step : worker.queue) {
            const Range rows = plan.graph[step.task].tile[2];
            std::int64_t offset = rows.begin * 2048;
            for (; next < worker.stream.size() && worker.stream[next].task == step.task; ++next) {
                EXPECT_EQ(worker.stream[next].offset, offset);
                EXPECT_LE(worker.stream[next].bytes(), plan.shared.slot_bytes);
                offset += worker.stream[next].bytes();
            }
            EXPECT_EQ(offset, rows.end * 2048);
        }
        EXPECT_EQ(next, worker.stream.size());
    }
}

TEST(Schedule, WhatNobodyWaitsForIsDealtOutWhereWeightsStream) {
    // Nine panels keep one of eight workers twice as long as the others, which seem to be free for all of the maps.
    std::string program = R"(
buffer b0 = input "x" : bf16[1, 8192]
buffer b1 = parameter "w" : bf16[72, 8192]
buffer b2 = output "y" : bf16[1, 72]
)";
    std::string regions = product_region("r0", 1, 72, 8192, "b0", "b1", "b2");
    for (int i = 0; i < 16; ++i) {
        const std::string out = "b" + std::to_string(3 + i);
        program += "buffer " + out + " = output \"" + out + "\" : f32[64]\n";
        regions += "region r" + std::to_string(1 + i) + " = map [64] \"" + out + "\" {\n    store " + out +
                   " : f32 [64:1] = { a0 = b0 : bf16 [64:1]  x0 = load a0 : bf16  x1 = cast x0 : f32 }\n}\n";
    }
    const Plan plan = planned(program + regions, h200_of(8));
    for (const Worker& worker : plan.workers) {
        const auto maps = std::count_if(worker.queue.begin(), worker.queue.end(), [&](const Step& step) {
            return plan.graph[step.task].region.value > 0;
        });
        EXPECT_EQ(maps, 2);
    }
}

TEST(Schedule, EqualTasksSpreadOverAllWorkers) {
    std::string buffers = "buffer b0 = input \"x\" : bf16[1, 1024]\n";
    std::string regions;
    for (int i = 0; i < 4; ++i) {
        const std::string w = "b" + std::to_string(2 * i + 1);
        const std::string y = "b" + std::to_string(2 * i + 2);
        buffers += "buffer " + w + " = parameter \"" + w + "\" : bf16[256, 1024]\n";
        buffers += "buffer " + y + " = output \"" + y + "\" : bf16[1, 256]\n";
        regions += product_region("r" + std::to_string(i), 1, 256, 1024, "b0", w, y);
    }
    const Plan plan = planned(buffers + regions, h200_of(8));
    std::int64_t least = INT64_MAX;
    std::int64_t most = 0;
    for (const Worker& worker : plan.workers) {
        std::int64_t bytes = 0;
        for (const Load& load : worker.stream) bytes += load.bytes();
        least = std::min(least, bytes);
        most = std::max(most, bytes);
    }
    EXPECT_EQ(least, 128 * 2048);
    EXPECT_EQ(most, least);
}

TEST(Schedule, AMachineWithoutRoomIsRefusedWithWhatIsMissing) {
    Machine machine = h200_of(2);
    machine.shared_bytes = 20000;
    try {
        static_cast<void>(planned(kProduct, machine));
        FAIL() << "the plan was made";
    } catch (const UserError& error) {
        EXPECT_NE(std::string(error.what()).find("has 20000 bytes of shared memory a worker"),
                  std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace stretto
