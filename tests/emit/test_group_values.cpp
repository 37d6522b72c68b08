#include <gtest/gtest.h>

#include "emit/group_values.h"

namespace stretto {
namespace {

/// Groups of 8 along dimension 1.
class GroupValues : public testing::Test {
protected:
    std::int32_t number(std::int64_t value) { return e.add({Op::Const, DType::I64, {}, value, 0}); }
    std::int32_t apply(Op op, std::int32_t a, std::int32_t b) { return e.apply(op, {a, b}); }
    [[nodiscard]] InGroup of(std::int32_t node) const {
        return ways_in_groups(e, 1, 8)[static_cast<std::size_t>(node)];
    }

    Expr e;
    std::int32_t own = e.index(1);
};

TEST_F(GroupValues, DigitsOfWholeGroupsAreTheSameForAllNeighbours) {
    EXPECT_EQ(of(own), InGroup::Counts);
    EXPECT_EQ(of(e.index(0)), InGroup::Same);
    EXPECT_EQ(of(apply(Op::FloorDiv, own, number(48))), InGroup::Same);
    EXPECT_EQ(of(apply(Op::FloorDiv, own, number(12))), InGroup::Other);
    EXPECT_EQ(of(apply(Op::FloorDiv, number(48), own)), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Mod, own, number(48))), InGroup::Counts);
    EXPECT_EQ(of(apply(Op::Mod, own, number(12))), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Add, number(16), own)), InGroup::Counts);
    EXPECT_EQ(of(apply(Op::Sub, own, number(16))), InGroup::Counts);
    EXPECT_EQ(of(apply(Op::Sub, number(16), own)), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Add, own, number(3))), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Mul, own, number(8))), InGroup::Other);
}

TEST_F(GroupValues, ComparisonsWithAMultipleOfTheLengthAreTheSameWhereItIsNotInTheGroup) {
    EXPECT_EQ(of(apply(Op::Lt, own, number(24))), InGroup::Same);
    EXPECT_EQ(of(apply(Op::Le, number(24), own)), InGroup::Same);
    EXPECT_EQ(of(apply(Op::Lt, apply(Op::Mod, own, number(48)), number(24))), InGroup::Same);
    EXPECT_EQ(of(apply(Op::Lt, own, number(20))), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Le, own, number(24))), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Lt, number(24), own)), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Eq, own, number(24))), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Lt, own, e.index(0))), InGroup::Other);
}

TEST_F(GroupValues, WhatIsMadeOfLoadsThatAreTheSameIsTheSame) {
    const auto load = [&](std::int32_t source) {
        return e.load({source, DType::F32, {{{atom(4, 1)}, {atom(64, 0)}}, 0}, {}});
    };
    const std::int32_t row = load(0), other = load(1);
    const std::int32_t log = e.apply(Op::Log, {row});
    const std::int32_t both = e.apply(Op::Mul, {log, other});
    const auto ways = ways_in_groups(e, 1, 8, {static_cast<std::size_t>(row)});
    EXPECT_EQ(ways[static_cast<std::size_t>(row)], InGroup::Same);
    EXPECT_EQ(ways[static_cast<std::size_t>(log)], InGroup::Same);
    EXPECT_EQ(ways[static_cast<std::size_t>(other)], InGroup::Other);
    EXPECT_EQ(ways[static_cast<std::size_t>(both)], InGroup::Other);
    const std::int32_t counted = e.cast(own, DType::F32);
    EXPECT_EQ(of(apply(Op::Lt, counted, e.constant(8, DType::F32))), InGroup::Other);
}

TEST_F(GroupValues, WhatDataDecidesIsNot) {
    const std::int32_t data = e.load({0, DType::I64, {{{atom(4, 1)}, {atom(64, 0)}}, 0}, {}});
    EXPECT_EQ(of(data), InGroup::Other);
    EXPECT_EQ(of(apply(Op::Add, data, number(8))), InGroup::Other);
    EXPECT_EQ(of(apply(Op::And, apply(Op::Lt, own, number(24)), apply(Op::Lt, e.index(0), number(3)))),
              InGroup::Same);
}

}  // namespace
}  // namespace stretto
