#include <gtest/gtest.h>

#include "cost/simulate.h"
#include "pipeline/pipeline.h"
#include "support/machines.h"
#include "tune/fit.h"
#include "tune/probe_programs.h"

namespace stretto {
namespace {

constexpr Quantity kTask{"task_us", "us", &Machine::task_us};
constexpr Quantity kBandwidth{"bandwidth", "bytes/us", &Machine::bandwidth, true};

class Fit : public testing::Test {
protected:
    /// What a machine with `value` in place of the quantity would show.
    [[nodiscard]] double difference(const Quantity& quantity, double value) const {
        Machine truth = machine_;
        truth.*quantity.member = value;
        return simulate(long_, truth).total - simulate(short_, truth).total;
    }

    Machine machine_ = h200_of(6);
    CompileOptions options_{machine_, Numerics::Fused, {}};
    Plan long_ = compile_regions(streamed_products(machine_, Rows::Chained, 9, 4), options_).plan;
    Plan short_ = compile_regions(streamed_products(machine_, Rows::Chained, 3, 4), options_).plan;
};

TEST_F(Fit, FindsATimeThatIsManyTimesTheOldOne) {
    const auto found = fitted(kTask, long_, short_, machine_, difference(kTask, 12.5));
    ASSERT_TRUE(found);
    EXPECT_NEAR(*found, 12.5, 12.5 * 0.002);
}

TEST_F(Fit, FindsATimeThatIsASmallPartOfTheOldOne) {
    const auto found = fitted(kTask, long_, short_, machine_, difference(kTask, 0.004));
    ASSERT_TRUE(found);
    EXPECT_NEAR(*found, 0.004, 0.004 * 0.002);
}

TEST_F(Fit, FindsARateFromTheBytesThatDiffer) {
    machine_.counter_us = 0.1;  // the stream decides, not the hand-offs
    machine_.word_us = 0.1;
    const auto found = fitted(kBandwidth, long_, short_, machine_, difference(kBandwidth, 7.5e4));
    ASSERT_TRUE(found);
    EXPECT_NEAR(*found, 7.5e4, 7.5e4 * 0.002);
}

TEST_F(Fit, FindsNothingWhereEverythingElseTakesLongerThanWasMeasured) {
    EXPECT_FALSE(fitted(kTask, long_, short_, machine_, difference(kTask, 0) / 2));
    EXPECT_FALSE(fitted(kTask, long_, short_, machine_, -1));
}

}  // namespace
}  // namespace stretto
