#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/memory_need.h"
#include "runtime/programs.h"
#include "support/machines.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

using test::linear_program;
using test::running_sum_program;

/// What is said about a program for which so much is free; empty if it fits.
std::string complaint(const Program& program, const Room& room) {
    try {
        check_fits(program, room);
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

TEST(MemoryNeed, CountsEveryTensorOnce) {
    const MemoryNeed need = memory_need(linear_program());
    EXPECT_EQ(need.parameters, 4 * (7 * 20 + 7));
    EXPECT_EQ(need.state, 0);
    EXPECT_EQ(need.arguments, 4 * (3 * 20 + 3 * 7));
    EXPECT_GT(need.code, 0);
    EXPECT_EQ(memory_need(running_sum_program()).state, 4 * 4);
}

TEST(MemoryNeed, AProgramFitsIntoExactlyWhatItNeeds) {
    const Program program = linear_program();
    const std::int64_t total = memory_need(program).total();
    EXPECT_EQ(complaint(program, {.bytes = total}), "");
    EXPECT_NE(complaint(program, {.bytes = total - 1}).find("of memory,"), std::string::npos);
}

TEST(MemoryNeed, TensorsThatAreThereNeedNoRoom) {
    const Program program = linear_program();
    const MemoryNeed need = memory_need(program);
    const std::int64_t own = need.intermediates + need.code;
    EXPECT_EQ(complaint(program, {.bytes = own, .holds_tensors = true}), "");
    EXPECT_NE(complaint(program, {.bytes = own - 1, .holds_tensors = true}), "");
}

TEST(MemoryNeed, PackedCopiesOfWeightsNeedRoomOfTheirOwn) {
    Program program = linear_program();
    program.plan = sample::every_kind(h200_of(1), 1);
    const MemoryNeed need = memory_need(program);
    EXPECT_EQ(need.packed, 4 * 9344);
    EXPECT_EQ(complaint(program, {.bytes = need.total()}), "");
    EXPECT_EQ(complaint(program, {.bytes = need.total() + need.packed, .packs_weights = true}), "");
    const std::string text =
        complaint(program, {.bytes = need.total() + need.packed - 1, .packs_weights = true});
    EXPECT_NE(text.find(", packed copies of weights 37.4 kB\n"), std::string::npos) << text;
}

/// Its arena holds nothing that is of a parameter's or a state's size.
Program program_with_arena(std::int64_t bytes) {
    Program program = linear_program();
    program.plan.arena_bytes = bytes;
    return program;
}

TEST(MemoryNeed, SaysWhatIsNeededAndWhichBatchFits) {
    const Program program = program_with_arena(8'000'000'000);
    const std::int64_t code = memory_need(program).code;
    const Room room{.bytes = 3'000'000'000 + code, .holds_tensors = true, .batch = 16};
    const std::string text = complaint(program, room);
    EXPECT_EQ(
        text.find("the program needs 8.00 GB of memory, 3.00 GB are free beside its parameters and state\n"
                  "  parameters 0.6 kB, state 0.0 kB, inputs and outputs 0.3 kB, intermediates 8.00 GB, "),
        0U)
        << text;
    EXPECT_NE(
        text.find("a batch of about 6 fits, this one has 16: compile for that, or with accumulate=True"),
        std::string::npos)
        << text;
}

TEST(MemoryNeed, SaysHowMuchSmallerWhereTheBatchIsNotKnown) {
    const Program program = program_with_arena(1'000'000'000);
    const std::int64_t others = memory_need(program).total() - 1'000'000'000;
    EXPECT_NE(complaint(program, {.bytes = others + 250'000'000}).find("about 25 % of their size fits"),
              std::string::npos);
}

TEST(MemoryNeed, SaysWhereNoBatchIsSmallEnough) {
    const Program program = program_with_arena(1'000'000'000);
    EXPECT_NE(complaint(program, {.bytes = 10}).find("no smaller batch is sure to fit"), std::string::npos);
    const std::int64_t code = memory_need(program).code;
    const Room room{.bytes = code + 1'000'000, .holds_tensors = true, .batch = 4};
    EXPECT_NE(complaint(program, room).find("not even one row of the 4"), std::string::npos);
}

TEST(MemoryNeed, ThisComputerHasSome) {
    const auto bytes = free_host_memory();
    if (!bytes) GTEST_SKIP() << "this system does not say";
    EXPECT_GT(*bytes, 1'000'000);
    EXPECT_LT(*bytes, 1LL << 50);
}

}  // namespace
}  // namespace stretto
