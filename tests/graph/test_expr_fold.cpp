#include <gtest/gtest.h>

#include "graph/expr.h"

namespace stretto {
namespace {

/// A table of 5 x 8 read at coordinates (3, the second digit of [4, 6]) of [2, 24].
struct Lookup {
    Expr expr;
    Access access{7, DType::F32, {{{atom(2, 0)}, {atom(4, 0), atom(6, 0)}}, 1}, {{8, 5}, {1, 24}}};

    Expr at(std::int32_t row, std::int32_t column) {
        expr.load(access, {row, column});
        return folded(expr);
    }
    std::int32_t number(double value) { return expr.constant(value, DType::I64); }
};

TEST(Folded, IndirectCoordinatesThatAreKnownArePartOfTheMap) {
    Lookup lookup;
    const Expr direct = lookup.at(lookup.number(3), lookup.expr.index(1));
    ASSERT_EQ(direct.nodes.size(), 1U);
    const Access& access = direct.accesses.front();
    EXPECT_TRUE(access.indirect.empty());
    EXPECT_EQ(access.map, (IndexMap{{{atom(2, 0)}, {atom(4, 6), atom(6, 1)}}, 1 + 3 * 8}));
}

TEST(Folded, IndirectCoordinatesBeyondTheBufferStayClamped) {
    Lookup lookup;
    const Expr expr = lookup.at(lookup.number(5), lookup.expr.index(1));
    ASSERT_EQ(expr.accesses.front().indirect.size(), 1U);
    EXPECT_EQ(expr.accesses.front().indirect.front(), (Access::Indirect{8, 5}));
}

TEST(Folded, NegativeIndirectCoordinatesCountFromTheEndOnTheDevice) {
    Lookup lookup;
    EXPECT_EQ(lookup.at(lookup.number(-1), lookup.expr.index(1)).accesses.front().indirect.size(), 1U);
}

TEST(Folded, CoordinatesThatExceedTheBufferStayClamped) {
    Lookup lookup;
    lookup.access.indirect.back().extent = 23;
    EXPECT_EQ(lookup.at(lookup.number(3), lookup.expr.index(1)).accesses.front().indirect.size(), 1U);
}

}  // namespace
}  // namespace stretto
