#include <gtest/gtest.h>

#include <limits>

#include "emit/cuda_types.h"
#include "emit/functor.h"
#include "emit/index_text.h"
#include "emit/operation_text.h"

namespace stretto {
namespace {

TEST(Literal, IsExact) {
    EXPECT_EQ(literal(0.1, DType::F32), "0x1.99999ap-4f");
    EXPECT_EQ(literal(0.1, DType::F64), "0x1.999999999999ap-4");
    EXPECT_EQ(literal(0.1, DType::BF16), "0x1.9ap-4f");
    EXPECT_EQ(literal(-2.0, DType::F32), "(-0x1p+1f)");
}

TEST(Literal, SpellsWhatHasNoDigits) {
    EXPECT_EQ(literal(-std::numeric_limits<double>::infinity(), DType::F32), "-infinity<float>()");
    EXPECT_EQ(literal(std::numeric_limits<double>::quiet_NaN(), DType::F64), "not_a_number<double>()");
}

TEST(Conversion, RoundsToTheTypeOfTheNode) {
    EXPECT_EQ(converted("x", DType::F32, DType::BF16), "round_to<BF16>(x)");
    EXPECT_EQ(converted("x", DType::BF16, DType::F32), "x");
    EXPECT_EQ(converted("x", DType::F32, DType::Bool), "(x != 0)");
    EXPECT_EQ(converted("x", DType::F32, DType::I32), "static_cast<I32>(static_cast<I64>(x))");
}

TEST(Operation, ComparesIntegersAndFloatsAsFloats) {
    const ExprNode less{Op::Lt, DType::Bool, {0, 1}, 0, 0};
    EXPECT_EQ(operation_text(less, {{"a", DType::I64}, {"b", DType::F32}}), "static_cast<float>(a) < b");
}

TEST(IndexText, SplitsACoordinateIntoDigits) {
    IndexMap map;
    map.dims = {{atom(3, 100), atom(4, 7)}};
    map.offset = 5;
    EXPECT_EQ(index_text(map, {"i"}, false).offset, "(i % 4) * 7 + (i / 4) * 100 + 5");
}

TEST(IndexText, GuardsMaskedDigits) {
    IndexMap map;
    map.dims = {{{10, 1, 2, 8}}};
    EXPECT_EQ(index_text(map, {"i"}, false).inside, "(i) >= 2 && (i) < 8");
}

TEST(IndexText, CountsWideOffsetsIn64Bits) {
    IndexMap map;
    map.dims = {{atom(1 << 20, 1 << 20)}};
    EXPECT_EQ(index_text(map, {"i"}, true).offset, "static_cast<I64>(i) * 1048576");
}

TEST(TypeName, IsTheLastPartOfTheRegionsName) {
    EXPECT_EQ(type_name("layers.3.mlp.down_proj#41"), "DownProj");
    EXPECT_EQ(type_name("7"), "Region7");
}

}  // namespace
}  // namespace stretto
