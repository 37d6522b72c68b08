#include <gtest/gtest.h>

#include "fuse/groups.h"
#include "fuse/reduce_lanes.h"

namespace stretto {
namespace {

using Way = MapGroups::Way;

constexpr std::int64_t kRows = 128;

/// A buffer's elements at [row, column], in rows of `stride`; stride 0 is one row for all.
Access at(std::int32_t buffer, std::int64_t columns, std::int64_t stride, DType type = DType::BF16) {
    return {buffer, type, {{{atom(kRows, stride)}, {atom(columns, 1)}}, 0}, {}};
}

/// y = x, with `columns` in rows that are apart by the strides.
MapGroups copied(std::int64_t columns, std::int64_t from, std::int64_t to) {
    RegionGraph graph;
    graph.buffers.resize(2);
    MapRegion map{{kRows, columns}, {{at(1, columns, to), {}, {}}}};
    map.stores[0].expr.load(at(0, columns, from));
    return map_groups(graph, map);
}

TEST(Groups, RowsOfAMapEndInARestWhereAllBeginAtGroups) {
    const MapGroups groups = copied(259, 264, 264);
    EXPECT_EQ(groups.way, Way::RowsRest);
    EXPECT_EQ(groups.length, 8);
    EXPECT_EQ(groups.dim, 1U);
}

TEST(Groups, WholeRowsOfAMapHaveNoRest) {
    EXPECT_EQ(copied(264, 264, 272).way, Way::Rows);
    EXPECT_EQ(copied(264, 264, 272).length, 8);
    // Groups of 4 would be whole, too.
    EXPECT_EQ(copied(260, 264, 264).way, Way::RowsRest);
    EXPECT_EQ(copied(260, 264, 264).length, 8);
}

TEST(Groups, OddRowsOfAMapThatFollowOneAnotherAreFlat) {
    EXPECT_EQ(copied(259, 259, 259).way, Way::Flat);
    EXPECT_EQ(copied(259, 259, 259).length, 8);
}

TEST(Groups, OddRowsOfAMapThatAreApartHaveNoGroups) {
    EXPECT_EQ(copied(259, 264, 261).length, 1);
    EXPECT_EQ(copied(259, 264, 261).alone, 2);
}

TEST(Groups, OnlyWhatLiesTogetherMovesTogether) {
    EXPECT_EQ(copied(259, 259, 264).way, Way::Flat);
    EXPECT_EQ(copied(259, 259, 264).alone, 1);
    EXPECT_EQ(copied(259, 259, 259).alone, 0);
    EXPECT_EQ(copied(259, 264, 264).alone, 0);
}

TEST(Groups, TermsOfALongRowEndInARest) {
    ReduceRegion region;
    region.space = {kRows, 259};
    region.kept = 1;
    region.reductions.resize(1);
    region.reductions[0].term.load(at(0, 259, 264));
    EXPECT_EQ(reduce_lanes(region).vector, 8);
    region.reductions[0].term = {};
    region.reductions[0].term.load(at(0, 259, 259));
    EXPECT_EQ(reduce_lanes(region).vector, 1);
}

TEST(Groups, RowsOfTermsWithARestAreNotOneRow) {
    ReduceRegion region;
    region.space = {2, 64, 259};
    region.kept = 1;
    region.reductions.resize(1);
    region.reductions[0].term.load(
        {0, DType::BF16, {{{atom(2, 64 * 264)}, {atom(64, 264)}, {atom(259, 1)}}, 0}, {}});
    EXPECT_EQ(reduce_lanes(region).vector, 1) << "a group would go on in the next row";
}

}  // namespace
}  // namespace stretto
