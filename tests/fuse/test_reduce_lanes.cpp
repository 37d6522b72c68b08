#include <gtest/gtest.h>

#include "fuse/reduce_lanes.h"

namespace stretto {
namespace {

using Way = ReduceLanes::Way;

Access read(std::vector<Atom> digits) {
    IndexMap map;
    for (const Atom& digit : digits) map.dims.push_back({digit});
    return {0, DType::I64, map, {}};
}

/// [512 results, 4096 terms], each comparing what `result` and `term` read.
ReduceRegion comparison(Access result, Access term) {
    ReduceRegion region;
    region.space = {512, 4096};
    region.kept = 1;
    Expr& less = region.reductions.emplace_back().term;
    less.apply(Op::Lt, {less.load(std::move(term)), less.load(std::move(result))});
    return region;
}

TEST(ReduceLanes, ResultsThatAllTakeTheSameTermsShareTheirLoads) {
    const Access own = read({atom(512, 1), atom(4096, 0)});
    EXPECT_EQ(reduce_lanes(comparison(own, read({atom(512, 0), atom(4096, 1)}))).way, Way::Columns);
}

TEST(ReduceLanes, ResultsWithTermsOfTheirOwnHaveAWarpEach) {
    const Access own = read({atom(512, 1), atom(4096, 0)});
    EXPECT_EQ(reduce_lanes(comparison(own, read({atom(512, 4096), atom(4096, 1)}))).way, Way::Along);
}

TEST(ReduceLanes, PlacesThatDataNamesLieTogetherWhereTheyStartTogether) {
    const auto way = [](std::int64_t by_result, std::int64_t by_term) {
        ReduceRegion region;
        region.space = {512, 64};
        region.kept = 1;
        Expr& term = region.reductions.emplace_back().term;
        Access found = read({atom(512, by_result), atom(64, by_term)});
        found.indirect = {{1, 100}};
        const std::int32_t place = term.load(read({atom(512, 1), atom(64, 0)}));
        term.load(std::move(found), {place});
        return reduce_lanes(region).way;
    };
    EXPECT_EQ(way(0, 100), Way::Columns);
    EXPECT_EQ(way(100, 0), Way::Along);
    EXPECT_EQ(way(0, 0), Way::Along);
}

TEST(ReduceLanes, FewResultsAreNoSingleLanesAndFewRowsNoSingleWarps) {
    const auto way = [](std::int64_t rows, std::int64_t terms) {
        ReduceRegion region;
        region.space = {rows, terms};
        region.kept = 1;
        region.reductions.emplace_back().term.load(
            {0, DType::F32, {{{atom(rows, terms)}, {atom(terms, 1)}}, 0}, {}});
        return reduce_lanes(region).way;
    };
    EXPECT_EQ(way(1, 29), Way::Along);
    EXPECT_EQ(way(8, 29), Way::Along);
    EXPECT_EQ(way(9, 29), Way::Own);
    EXPECT_EQ(way(1, 4), Way::Own);
    EXPECT_EQ(way(29, 1733), Way::Together);
    EXPECT_EQ(way(29, 768), Way::Along);
    EXPECT_EQ(way(129, 1733), Way::Along);
}

TEST(ReduceLanes, ManyShortRowsHaveALaneEach) {
    const auto way = [](std::int64_t rows, std::int64_t terms, bool elements) {
        ReduceRegion region;
        region.space = {rows, terms};
        region.kept = 1;
        region.reductions.emplace_back().term.load(
            {0, DType::BF16, {{{atom(rows, terms)}, {atom(terms, 1)}}, 0}, {}});
        if (elements) region.element_stores.emplace_back();
        return reduce_lanes(region).way;
    };
    EXPECT_EQ(way(8192, 48, false), Way::Alone);
    EXPECT_EQ(way(8192, 64, false), Way::Alone);
    EXPECT_EQ(way(8192, 72, false), Way::Along);  // more groups than are on their way together
    EXPECT_EQ(way(8191, 48, false), Way::Along);
    EXPECT_EQ(way(8192, 48, true), Way::Along);
    EXPECT_EQ(way(8192, 45, false), Way::Along);  // rows do not begin at whole groups
}

/// The gradient of a norm's scale: [columns, rows] of an error and an input, of which each row has statistics.
TEST(ReduceLanes, WhatResultsShareDoesNotKeepThemFromColumns) {
    ReduceRegion region;
    region.space = {768, 1024};
    region.kept = 1;
    Expr& term = region.reductions.emplace_back().term;
    for (std::int32_t buffer = 0; buffer < 2; ++buffer)
        term.load({buffer, DType::BF16, {{{atom(768, 1)}, {atom(1024, 768)}}, 0}, {}});
    for (std::int32_t buffer = 2; buffer < 5; ++buffer)
        term.load({buffer, DType::F32, {{{atom(768, 0)}, {atom(1024, 1)}}, 0}, {}});
    EXPECT_EQ(reduce_lanes(region).way, Way::Columns);
    EXPECT_EQ(reduce_lanes(region).vector, 8);
}

TEST(ReduceLanes, AllWarpsShareARowThatTheL2WouldNotHoldOncePerWarp) {
    const auto way = [](std::int64_t columns) {
        ReduceRegion region;
        region.space = {1024, columns};
        region.kept = 1;
        region.reductions.emplace_back().term.load(
            {0, DType::BF16, {{{atom(1024, columns)}, {atom(columns, 1)}}, 0}, {}});
        EXPECT_EQ(results_at_once(region, 8), reduce_lanes(region).way == Way::Together ? 1 : 8);
        return reduce_lanes(region).way;
    };
    EXPECT_EQ(way(16383), Way::Along);
    EXPECT_EQ(way(16384), Way::Together);
}

/// [rows, 64 columns, 40 terms], of which a row's bounds name those that count; the terms are rows of 64.
ReduceRegion segments(std::int64_t rows) {
    const auto over = [&](std::int64_t row, std::int64_t column, std::int64_t term) {
        return IndexMap{{{atom(rows, row)}, {atom(64, column)}, {atom(40, term)}}, 0};
    };
    ReduceRegion region{{rows, 64, 40}, 2, {{}}, {}, {}, {}};
    const Access bound{0, DType::I64, over(1, 0, 0), {}};
    region.ragged = Ragged{bound, bound, 1};
    region.reductions[0].term.load({1, DType::F32, over(0, 1, 64), {}});
    Store store{{2, DType::F32, over(64, 1, 0), {}}, {}, {}};
    store.expr.acc(0);
    region.stores.push_back(store);
    return region;
}

TEST(ReduceLanes, NeighbouringResultsOfTheSameTermsShareALane) {
    const ReduceLanes lanes = reduce_lanes(segments(513));
    EXPECT_EQ(lanes.way, Way::Own);
    EXPECT_EQ(lanes.vector, 4);
    EXPECT_EQ(lanes.dim, 1U);
}

TEST(ReduceLanes, FewResultsHaveALaneEach) { EXPECT_EQ(reduce_lanes(segments(512)).vector, 1); }

TEST(ReduceLanes, ResultsWithRangesOfTheirOwnHaveALaneEach) {
    ReduceRegion region = segments(513);
    region.ragged->end.map.dims[1] = {atom(64, 1)};
    EXPECT_EQ(reduce_lanes(region).vector, 1);
}

TEST(ReduceLanes, ResultsWhoseTermsOrStoresAreApartHaveALaneEach) {
    ReduceRegion terms = segments(513);
    terms.reductions[0].term.accesses[0].map.dims = {{atom(513, 0)}, {atom(64, 40)}, {atom(40, 1)}};
    EXPECT_EQ(reduce_lanes(terms).vector, 1);
    ReduceRegion stores = segments(513);
    stores.stores[0].target.map.dims = {{atom(513, 1)}, {atom(64, 513)}, {atom(40, 0)}};
    EXPECT_EQ(reduce_lanes(stores).vector, 1);
}

TEST(ReduceLanes, NeighboursShareALaneWhereDataNamesOnePlaceForThem) {
    const auto gathered = [](std::int64_t by_column) {
        ReduceRegion region = segments(513);
        const Access number{3, DType::I64, {{{atom(513, 0)}, {atom(64, by_column)}, {atom(40, 1)}}, 0}, {}};
        const Access row{1, DType::F32, {{{atom(513, 0)}, {atom(64, 1)}, {atom(40, 0)}}, 0}, {{64, 40}}};
        Expr& term = region.reductions[0].term = {};
        term.load(row, {term.load(number)});
        return reduce_lanes(region).vector;
    };
    EXPECT_EQ(gathered(0), 4);
    EXPECT_EQ(gathered(1), 1);
}

}  // namespace
}  // namespace stretto
