#include <gtest/gtest.h>

#include "memory/memory.h"
#include "schedule/text.h"

namespace stretto {
namespace {

/// Four steps x -> b1 -> b2 -> b3 -> y, each on a worker of its own, where step i waits for `waits[i]`.
Plan chain(const std::array<std::string, 4>& waits) {
    std::string text =
        "plan \"test\" shared 0 slots of 0 scratch 0 warps 8\n"
        "buffer b0 = input \"x\" : f32[100]  buffer b1 = arena \"1\" : f32[100]\n"
        "buffer b2 = arena \"2\" : f32[100]  buffer b3 = arena \"3\" : f32[100]\n"
        "buffer b4 = output \"y\" : f32[100]\n";
    const auto number = [](int i) { return std::to_string(i); };
    for (int i = 0; i < 4; ++i) {
        text += "region r" + number(i) + " = map [100] \"" + number(i) + "\" { store b" + number(i + 1) +
                " : f32 [100:1] = { a0 = b" + number(i) +
                " : f32 [100:1] x0 = load a0 : f32 x1 = neg x0 : f32 } }\n";
    }
    for (int i = 0; i < 4; ++i) text += "tasks r" + number(i) + " " + number(i) + ".." + number(i + 1) + "\n";
    for (int i = 0; i < 4; ++i) {
        text += "task t" + number(i) + " = r" + number(i) + " [0..100, 0..0, 0..0, 0..0] reads b" +
                number(i) + "[0..100] writes b" + number(i + 1) + "[0..100]\n";
    }
    for (int i = 0; i < 4; ++i) text += "event e" + number(i) + " = counter 1 \"" + number(i) + "\"\n";
    for (int i = 0; i < 4; ++i) {
        text += "worker w" + number(i) + " { step t" + number(i) + waits[static_cast<std::size_t>(i)] +
                " signals e" + number(i) + " }\n";
    }
    return parse_plan(text);
}

Plan ordered_chain() { return chain({"", " waits e0>=1", " waits e1>=1", " waits e2>=1"}); }

TEST(Memory, ReusesABufferOnceItsLastReaderIsOrderedFirst) {
    const Plan plan = place_buffers(ordered_chain());
    EXPECT_EQ(plan.offsets[3], plan.offsets[1]);
}

TEST(Memory, ABufferThatIsReadWhileAnotherIsWrittenSharesNoBytesWithIt) {
    const Plan plan = place_buffers(ordered_chain());
    EXPECT_GE(std::abs(plan.offsets[2] - plan.offsets[1]), 400);
    EXPECT_GE(std::abs(plan.offsets[3] - plan.offsets[2]), 400);
}

TEST(Memory, ListOrderIsNoOrder) {
    const Plan plan = place_buffers(chain({"", " waits e0>=1", "", " waits e2>=1"}));
    EXPECT_GE(std::abs(plan.offsets[3] - plan.offsets[1]), 400);
}

TEST(Memory, WordsShareBytesWithNothingAndTakeEightOrFourAnElement) {
    Plan scheduled = ordered_chain();
    scheduled.graph.regions.buffers[1].tagged = true;
    for (const std::int64_t bytes : {800, 400}) {
        scheduled.graph.regions.buffers[1].packed = bytes == 400;
        const Plan plan = place_buffers(scheduled);
        EXPECT_EQ(plan.offsets[1], 0);
        EXPECT_GE(plan.offsets[2], bytes);
        EXPECT_GE(plan.offsets[3], bytes);
    }
}

TEST(Memory, OnlyTheArenaHasOffsetsAndTheyAreAligned) {
    const Plan plan = place_buffers(ordered_chain());
    EXPECT_EQ(plan.offsets[0], -1);
    EXPECT_EQ(plan.offsets[4], -1);
    for (std::size_t b = 1; b < 4; ++b) {
        EXPECT_EQ(plan.offsets[b] % 256, 0);
        EXPECT_LE(plan.offsets[b] + 400, plan.arena_bytes);
    }
}

}  // namespace
}  // namespace stretto
