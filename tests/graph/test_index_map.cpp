#include <gtest/gtest.h>

#include "graph/index_groups.h"
#include "graph/index_map.h"

namespace stretto {
namespace {

/// Offsets of all coordinates in row-major order; -1 where masked.
std::vector<std::int64_t> offsets(const IndexMap& map) {
    const Shape shape = map.shape();
    std::vector<std::int64_t> result;
    std::vector<std::int64_t> at(shape.size(), 0);
    for (std::int64_t i = 0; i < volume(shape); ++i) {
        std::int64_t rest = i;
        for (std::size_t d = shape.size(); d-- > 0;) {
            at[d] = rest % shape[d];
            rest /= shape[d];
        }
        result.push_back(offset_of(map, at).value_or(-1));
    }
    return result;
}

/// What composition must mean: the coordinate of outer names a position of middle, whose coordinate goes to
/// inner.
std::vector<std::int64_t> composed_by_hand(const IndexMap& outer, const IndexMap& inner) {
    const auto table = offsets(inner);
    auto result = offsets(outer);
    for (auto& offset : result) {
        if (offset >= 0) offset = table.at(static_cast<std::size_t>(offset));
    }
    return result;
}

TEST(IndexMap, ReshapeOfARowMajorValueKeepsItsOrder) {
    const auto map = reshaped(identity_map({6, 4}), {2, 3, 2, 2});
    ASSERT_TRUE(map);
    EXPECT_EQ(offsets(*map), offsets(identity_map({24})));
}

TEST(IndexMap, MergingABroadcastDimensionKeepsTwoDigits) {
    const auto grouped = reshaped(inserted_dim(identity_map({3, 5}), 1, 2), {6, 5});
    ASSERT_TRUE(grouped);
    EXPECT_EQ(grouped->dims[0].size(), 2U);
    EXPECT_EQ(offset_of(*grouped, {0, 1}), 1);
    EXPECT_EQ(offset_of(*grouped, {1, 1}), 1);
    EXPECT_EQ(offset_of(*grouped, {2, 1}), 6);
}

TEST(IndexMap, ReshapeAcrossATransposeMixesDigits) {
    const auto map = reshaped(permuted(identity_map({3, 4}), {1, 0}), {2, 6});
    ASSERT_TRUE(map);
    EXPECT_EQ(offsets(*map), offsets(permuted(identity_map({3, 4}), {1, 0})));
}

TEST(IndexMap, ReshapeThatCutsADigitUnevenlyNeedsACopy) {
    EXPECT_FALSE(reshaped(permuted(identity_map({3, 4}), {1, 0}), {3, 4}));
}

TEST(IndexMap, SlicePicksEveryStepthElement) {
    const auto map = sliced(identity_map({2, 10}), 1, 1, 3, 4);
    ASSERT_TRUE(map);
    EXPECT_EQ(offsets(*map), (std::vector<std::int64_t>{1, 5, 9, 11, 15, 19}));
}

TEST(IndexMap, SliceInsideOneOuterDigitDropsIt) {
    const auto merged = *reshaped(permuted(identity_map({2, 3, 4}), {1, 0, 2}), {6, 4});
    const auto map = sliced(merged, 0, 2, 2);
    ASSERT_TRUE(map);
    EXPECT_EQ(offset_of(*map, {0, 0}), 4);
    EXPECT_EQ(offset_of(*map, {1, 0}), 16);
}

TEST(IndexMap, PaddingMasksWhatItAdds) {
    const auto map = padded(identity_map({2, 2}), 1, 1, 1);
    ASSERT_TRUE(map);
    EXPECT_EQ(offsets(*map), (std::vector<std::int64_t>{-1, 0, 1, -1, -1, 2, 3, -1}));
}

TEST(IndexMap, CompositionOfViewsIsTheViewOfTheView) {
    const IndexMap transposed = permuted(identity_map({4, 6}), {1, 0});  // middle value: [6, 4]
    const IndexMap outer = *reshaped(identity_map({6, 4}), {2, 3, 4});
    const auto map = composed(outer, {6, 4}, transposed);
    ASSERT_TRUE(map);
    EXPECT_EQ(offsets(*map), composed_by_hand(outer, transposed));
}

TEST(IndexMap, CompositionCarriesMasksOfBothSides) {
    const IndexMap inner = *padded(identity_map({4}), 0, 2, 0);  // middle: [6], first two masked
    const IndexMap outer = *padded(*sliced(identity_map({6}), 0, 1, 4), 0, 0, 1);
    const auto map = composed(outer, {6}, inner);
    ASSERT_TRUE(map);
    EXPECT_EQ(offsets(*map), composed_by_hand(outer, inner));
}

TEST(IndexMap, ADigitMaskedAtWholeRowsIsSplit) {
    // Rows of a value [2, 4, 3] whose halves lie column by column.
    IndexMap outer = identity_map({8, 3});
    outer.dims[0] = {{8, 3, 2, 5}};
    const auto inner = permuted(identity_map({2, 3, 4}), {0, 2, 1});
    EXPECT_FALSE(composed(outer, {2, 4, 3}, inner));  // it would be masked in the middle of a half
    outer.dims[0] = {{8, 3, 4, 8}};
    const auto map = composed(outer, {2, 4, 3}, inner);
    ASSERT_TRUE(map);
    EXPECT_EQ(offsets(*map), composed_by_hand(outer, inner));
}

TEST(IndexMap, GroupsAreMaskedAllOrNone) {
    const auto masked = [](std::int64_t lo, std::int64_t hi) { return IndexMap{{{{24, 1, lo, hi}}}, -lo}; };
    EXPECT_TRUE(lies_in_groups(masked(8, 16), 0, 8));
    EXPECT_TRUE(lies_in_groups(masked(0, 24), 0, 8));
    EXPECT_TRUE(lies_in_groups(masked(8, 16), 0, 4));
    EXPECT_FALSE(lies_in_groups(masked(4, 16), 0, 8));
    EXPECT_FALSE(lies_in_groups(masked(8, 12), 0, 8));
    // The last group may be short where the digit ends, and then all of it counts.
    EXPECT_TRUE(lies_in_groups(IndexMap{{{{20, 1, 8, 20}}}, 0}, 0, 8));
    // One element for all, here and there.
    const IndexMap broadcast{{{{24, 0, 8, 16}}}, 0};
    EXPECT_FALSE(moves_within_groups(broadcast, 0, 8));
    EXPECT_TRUE(moves_within_groups(broadcast, 0, 16));
}

TEST(IndexMap, CompositionThroughAMergedBroadcast) {
    const IndexMap repeated = *reshaped(inserted_dim(identity_map({3, 8}), 1, 2), {6, 8});
    const IndexMap outer = permuted(*reshaped(identity_map({6, 8}), {6, 2, 4}), {1, 0, 2});
    const auto map = composed(outer, {6, 8}, repeated);
    ASSERT_TRUE(map);
    EXPECT_EQ(offsets(*map), composed_by_hand(outer, repeated));
}

TEST(IndexMap, ASliceThatCrossesRowsDoesNotCompose) {
    const IndexMap outer = *sliced(identity_map({12}), 0, 2, 4);
    const IndexMap transposed = permuted(identity_map({4, 3}), {1, 0});  // middle: [3, 4]
    EXPECT_FALSE(composed(outer, {3, 4}, transposed));
}

TEST(IndexMap, ViewsCrossRowsThatFollowOneAnother) {
    const IndexMap rows = *sliced(identity_map({5, 6}), 0, 1, 4);  // middle: [4, 6]
    for (const IndexMap& outer :
         {*reshaped(identity_map({24}), {3, 8}), *sliced(identity_map({24}), 0, 5, 9)}) {
        const auto map = composed(outer, {4, 6}, rows);
        ASSERT_TRUE(map);
        EXPECT_EQ(offsets(*map), composed_by_hand(outer, rows));
    }
}

TEST(IndexMap, ViewsDoNotCrossRowsOfABroadcast) {
    const IndexMap rows = inserted_dim(identity_map({4}), 1, 6);  // middle: [4, 6]
    EXPECT_FALSE(composed(*reshaped(identity_map({24}), {3, 8}), {4, 6}, rows));
    const IndexMap one = inserted_dim(inserted_dim({}, 0, 4), 1, 6);
    EXPECT_TRUE(composed(*reshaped(identity_map({24}), {3, 8}), {4, 6}, one));
}

TEST(IndexMap, CoordinateOfAMiddleDimension) {
    const IndexMap outer = *reshaped(identity_map({6, 4}), {24});
    const auto rows = coordinate_map(outer, {6, 4}, 0);
    const auto columns = coordinate_map(outer, {6, 4}, 1);
    ASSERT_TRUE(rows && columns);
    EXPECT_EQ(offset_of(*rows, {23}), 5);
    EXPECT_EQ(offset_of(*columns, {23}), 3);
}

TEST(IndexMap, IsInjectiveWhereEveryCoordinateHasAnElementOfItsOwn) {
    const IndexMap rows = identity_map({3, 4});
    EXPECT_TRUE(is_injective(rows));
    EXPECT_TRUE(is_injective(permuted(rows, {1, 0})));
    EXPECT_TRUE(is_injective(sliced(rows, 1, 1, 2).value()));
    EXPECT_TRUE(is_injective({{{atom(3, 8)}, {atom(4, 2)}}, 1}));
    EXPECT_FALSE(is_injective({{{atom(3, 3)}, {atom(4, 1)}}, 0}));
    EXPECT_FALSE(is_injective(inserted_dim(rows, 0, 2)));
    EXPECT_FALSE(is_injective(padded(rows, 0, 1, 0).value()));
}

TEST(IndexMap, FootprintOfATileOfAView) {
    const IndexMap heads = *reshaped(identity_map({2, 576}), {2, 9, 64});
    EXPECT_EQ(footprint(heads, {{1, 2}, {2, 4}, {0, 64}}, {2, 576}), (Box{{1, 2}, {128, 256}}));
}

TEST(IndexMap, FootprintOfAMergedDimensionCoversItsRows) {
    const IndexMap flat = *reshaped(identity_map({3, 4}), {12});
    EXPECT_EQ(footprint(flat, {{4, 8}}, {3, 4}), (Box{{1, 2}, {0, 4}}));
    EXPECT_EQ(footprint(flat, {{3, 6}}, {3, 4}), (Box{{0, 2}, {0, 4}}));
}

TEST(IndexMap, FootprintLeavesOutWhatIsMasked) {
    const IndexMap map = *padded(identity_map({4}), 0, 2, 2);
    EXPECT_EQ(footprint(map, {{0, 4}}, {4}), (Box{{0, 2}}));
    EXPECT_EQ(volume(footprint(map, {{0, 2}}, {4})), 0);
}

TEST(Box, LinearRangeIsCoveredByFewExactBoxes) {
    EXPECT_EQ(boxes_of_linear_range({4, 10}, {7, 33}),
              (std::vector<Box>{{{0, 1}, {7, 10}}, {{1, 3}, {0, 10}}, {{3, 4}, {0, 3}}}));
    EXPECT_EQ(boxes_of_linear_range({4, 10}, {10, 20}), (std::vector<Box>{{{1, 2}, {0, 10}}}));
}

}  // namespace
}  // namespace stretto
