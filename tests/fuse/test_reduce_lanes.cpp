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
    region.term.apply(Op::Lt, {region.term.load(std::move(term)), region.term.load(std::move(result))});
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

}  // namespace
}  // namespace stretto
