#include <gtest/gtest.h>

#include "graph/value_range.h"

namespace stretto {
namespace {

using Known = std::optional<Range>;

class ValueRanges : public testing::Test {
protected:
    std::int32_t number(std::int64_t value) { return e.add({Op::Const, DType::I64, {}, value, 0}); }
    [[nodiscard]] Known of(std::int32_t node) const {
        return value_ranges(e)[static_cast<std::size_t>(node)];
    }
    /// One of two numbers, as a coordinate says.
    std::int32_t either(std::int64_t a, std::int64_t b) {
        const std::int32_t first = e.apply(Op::Eq, {e.index(0), number(0)});
        return e.apply(Op::Select, {first, number(a), number(b)});
    }

    Expr e;
};

TEST_F(ValueRanges, AreThoseOfSumsAndSelectionsOfConstants) {
    EXPECT_EQ(of(number(-3)), Known({-3, -2}));
    EXPECT_EQ(of(either(7, 2)), Known({2, 8}));
    EXPECT_EQ(of(e.apply(Op::Add, {either(7, 2), either(-1, 4)})), Known({1, 12}));
    EXPECT_EQ(of(e.apply(Op::Sub, {either(7, 2), either(-1, 4)})), Known({-2, 9}));
    EXPECT_EQ(of(e.apply(Op::Mul, {either(7, -2), either(-1, 4)})), Known({-8, 29}));
    EXPECT_EQ(of(e.apply(Op::Mul, {number(std::int64_t{1} << 32), number(2)})), std::nullopt);
    EXPECT_EQ(of(e.apply(Op::Min, {either(7, 2), number(5)})), Known({2, 6}));
    EXPECT_EQ(of(e.apply(Op::Max, {either(7, 2), number(5)})), Known({5, 8}));
}

TEST_F(ValueRanges, OfCoordinatesAndTheirDigitsAreNotNegative) {
    EXPECT_EQ(of(e.index(0)), Known({0, std::int64_t{1} << 31}));
    EXPECT_EQ(of(e.apply(Op::FloorDiv, {either(100, 30), number(48)})), Known({0, 3}));
    EXPECT_EQ(of(e.apply(Op::Mod, {e.index(0), number(48)})), Known({0, 48}));
    EXPECT_EQ(of(e.apply(Op::Mod, {either(-7, 2), number(48)})), Known({0, 48}));
    EXPECT_EQ(of(e.apply(Op::FloorDiv, {e.index(0), either(0, 2)})), std::nullopt);
}

TEST_F(ValueRanges, OfBitsGoToTheLastOneOfTheLargerNumber) {
    EXPECT_EQ(of(e.apply(Op::BitOr, {either(8, 0), number(3)})), Known({3, 16}));
    EXPECT_EQ(of(e.apply(Op::BitOr, {either(8, -1), number(3)})), std::nullopt);
}

TEST_F(ValueRanges, AreUnknownOfDataAndOfWhatMayWrapAround) {
    const std::int32_t data = e.load({0, DType::I64, identity_map({4}), {}});
    EXPECT_EQ(of(data), std::nullopt);
    EXPECT_EQ(of(e.apply(Op::Add, {data, number(5)})), std::nullopt);
    const std::int32_t bounded = e.apply(Op::Min, {data, number(5)});
    EXPECT_EQ(of(e.apply(Op::Add, {bounded, number(5)})), std::nullopt);
    EXPECT_EQ(of(e.apply(Op::Max, {bounded, number(-3)})), Known({-3, 6}));
    EXPECT_EQ(of(number(INT64_MAX)), std::nullopt);
    std::int32_t doubled = number(std::int64_t{1} << 38);
    for (int i = 0; i < 30; ++i) doubled = e.apply(Op::Add, {doubled, doubled});
    EXPECT_EQ(of(doubled), std::nullopt);
}

TEST_F(ValueRanges, OfLoadsAreThoseOfTypesAndOfWhatTheCallerKnows) {
    const std::int32_t truth = e.load({0, DType::Bool, identity_map({4}), {}});
    const std::int32_t narrow = e.cast(e.load({1, DType::I32, identity_map({4}), {}}), DType::I64);
    const std::int32_t data = e.load({2, DType::I64, identity_map({4}), {}});
    const std::int32_t part = e.load({2, DType::I64, *padded(identity_map({3}), 0, 0, 1), {}});
    const auto ranges = value_ranges(e, [](const Access& access) {
        return access.source == 2 ? Known({5, 9}) : std::nullopt;
    });
    EXPECT_EQ(ranges[static_cast<std::size_t>(truth)], Known({0, 2}));
    EXPECT_EQ(ranges[static_cast<std::size_t>(narrow)],
              Known({-(std::int64_t{1} << 31), std::int64_t{1} << 31}));
    EXPECT_EQ(ranges[static_cast<std::size_t>(data)], Known({5, 9}));
    EXPECT_EQ(ranges[static_cast<std::size_t>(part)], Known({0, 9}));
}

}  // namespace
}  // namespace stretto
