#include <gtest/gtest.h>

#include <cmath>

#include "backends/reference/judge.h"
#include "backends/runs.h"
#include "support/region_oracle.h"
#include "verify/verify.h"

namespace stretto {
namespace {

/// Is `got` within the case's tolerance of `want`? `largest` is the largest finite element of the buffer.
bool close(const Case& test, double got, double want, double largest) {
    if (std::isnan(want)) return std::isnan(got);
    if (std::isinf(want)) return got == want;
    return std::abs(got - want) <= test.relative * std::abs(want) + test.absolute * largest;
}

void expect_close(const Case& test, const Elements& got, const Elements& want) {
    double largest = 0;
    for (double x : want) {
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    }
    int wrong = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (close(test, got[i], want[i], largest) || ++wrong > 3) continue;
        ADD_FAILURE() << "element " << i << " is " << got[i] << ", not " << want[i];
    }
    EXPECT_EQ(wrong, 0) << "of " << want.size() << " elements";
}

/// Buffers that the program writes and the caller sees.
std::vector<BufferId> results(const RegionGraph& graph) {
    std::vector<BufferId> out;
    for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
        const BufferRole role = graph.buffers[b].role;
        if (role == BufferRole::Output || role == BufferRole::State)
            out.emplace_back(static_cast<std::int64_t>(b));
    }
    return out;
}

void expect_result_of_the_plain_evaluator(const Case& test, const Backend& backend) {
    const Plan plan = planned(test.graph, backend.machine);
    ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].message;
    ASSERT_TRUE(exhaustive_check(plan).empty()) << exhaustive_check(plan)[0];

    BufferMemory memory(test.graph, 17);
    if (test.prepare) test.prepare(memory);
    std::vector<Elements> expected = memory.all_elements();
    const int launches = 2;
    for (int i = 0; i < launches; ++i) evaluate(test.graph, expected);

    backend.run(plan, memory, launches);
    ASSERT_FALSE(results(test.graph).empty());
    for (BufferId buffer : results(test.graph)) {
        expect_close(test, memory.elements(buffer), expected[buffer.index()]);
    }
}

class Conformance : public testing::TestWithParam<Run> {};

TEST_P(Conformance, GivesTheResultOfThePlainEvaluator) {
    const auto& [test, backend] = GetParam();
    expect_result_of_the_plain_evaluator(test, backend);
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, testing::ValuesIn(runs_of(all_cases(), available_backends())),
                         run_name);

class PackedWords : public testing::TestWithParam<Run> {};

TEST_P(PackedWords, LoseTheLastBitOfF32AndNothingElse) {
    auto [test, backend] = GetParam();
    // A value is handed on as often as this, and each hand-off changes it by at most a unit in the last place.
    constexpr double kHandOffs = 8;
    test.relative += kHandOffs * 2 * epsilon(DType::F32);
    test.absolute += kHandOffs * 2 * epsilon(DType::F32);
    expect_result_of_the_plain_evaluator(test, backend);
}

INSTANTIATE_TEST_SUITE_P(All, PackedWords, testing::ValuesIn(runs_of(chain_cases(), packed_backends())),
                         run_name);

}  // namespace
}  // namespace stretto
