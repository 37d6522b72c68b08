#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rounding.h"

namespace stretto {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Rounding, IntegersSaturateAtSixtyFourBitsAndThenKeepTheirLowOnes) {
    EXPECT_EQ(rounded(kInfinity, DType::U8), 255);
    EXPECT_EQ(rounded(-kInfinity, DType::U8), 0);
    EXPECT_EQ(rounded(259.9, DType::U8), 3);
    EXPECT_EQ(rounded(-1.5, DType::U8), 255);
    EXPECT_EQ(rounded(kInfinity, DType::I32), -1);
    EXPECT_EQ(rounded(0x1p31, DType::I32), -0x1p31);
    EXPECT_EQ(rounded(-2.75, DType::I32), -2);
    EXPECT_EQ(rounded(-kInfinity, DType::I64), -0x1p63);
    EXPECT_EQ(rounded(-2.75, DType::I64), -2);
}

TEST(Rounding, NoNumberIsTheIntegerZeroAndZeroHasNoSign) {
    for (const DType type : {DType::U8, DType::I32, DType::I64}) {
        EXPECT_EQ(rounded(std::nan(""), type), 0);
        EXPECT_FALSE(std::signbit(rounded(-0.5, type)));
    }
}

}  // namespace
}  // namespace stretto
