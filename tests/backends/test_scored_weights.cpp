#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cases.h"
#include "fuse/scored.h"
#include "fuse/scored_weights.h"
#include "support/region_oracle.h"

namespace stretto {
namespace {

/// `inside` where c - r is in the band, `outside` elsewhere.
Expr within(Range band, const Expr& inside, const Expr& outside) {
    Expr all;
    const std::int32_t row = all.index(kScoredRow);
    const std::int32_t distance = all.apply(Op::Sub, {all.index(kScoredContext), row});
    const std::int32_t begins =
        all.apply(Op::Le, DType::Bool, {all.constant(static_cast<double>(band.begin), DType::I64), distance});
    const std::int32_t ends =
        all.apply(Op::Lt, DType::Bool, {distance, all.constant(static_cast<double>(band.end), DType::I64)});
    const std::int32_t seen = all.apply(Op::And, DType::Bool, {begins, ends});
    const std::int32_t value = copy_into(all, inside, inside.root());
    all.apply(Op::Select, DType::F32, {seen, value, copy_into(all, outside, outside.root())});
    return all;
}

/// The graph with its weights as the device computes them: within the band in the form for that.
RegionGraph with_quick_weights(RegionGraph graph) {
    for (Region& region : graph.regions) {
        auto* scored = std::get_if<ScoredRegion>(&region.body);
        if (scored == nullptr) continue;
        const ScoredWeights everywhere = quick_weights(*scored, false);
        const ScoredWeights inside = quick_weights(*scored, true);
        for (std::size_t s = 0; s < scored->sums.size(); ++s)
            scored->sums[s].weight = within(scored->band, extracted(inside.expr, inside.nodes[s]),
                                            extracted(everywhere.expr, everywhere.nodes[s]));
    }
    return graph;
}

class ScoredWeightsOf : public testing::TestWithParam<Case> {};

/// The oracle rounds each node to F32, and weights to 16 bits: one near the middle may be rounded to either.
TEST_P(ScoredWeightsOf, AreTheSameInTheDevicesForm) {
    const Case& test = GetParam();
    const RegionGraph quick = with_quick_weights(test.graph);
    ASSERT_FALSE(quick.regions == test.graph.regions);
    const BufferMemory memory(test.graph, 23);
    std::vector<Elements> expected = memory.all_elements();
    std::vector<Elements> got = expected;
    evaluate(test.graph, expected);
    evaluate(quick, got);
    for (std::size_t b = 0; b < expected.size(); ++b) {
        if (test.graph.buffers[b].role != BufferRole::Output) continue;
        double largest = 0;
        double error = 0;
        for (std::size_t i = 0; i < expected[b].size(); ++i) {
            ASSERT_TRUE(std::isfinite(got[b][i]));
            largest = std::max(largest, std::abs(expected[b][i]));
            error = std::max(error, std::abs(got[b][i] - expected[b][i]));
        }
        EXPECT_GT(largest, 0);
        EXPECT_LE(error, (test.relative + test.absolute) * largest) << b;
    }
}

INSTANTIATE_TEST_SUITE_P(All, ScoredWeightsOf, testing::ValuesIn(scored_cases()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace stretto
