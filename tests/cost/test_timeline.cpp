#include <gtest/gtest.h>

#include "base/error.h"
#include "cost/plans.h"
#include "cost/timeline.h"

namespace stretto {
namespace {

std::size_t bars(const std::string& svg) {
    std::size_t count = 0;
    for (std::size_t at = svg.find("y=\"28"); at != std::string::npos; at = svg.find("y=\"28", at + 1))
        ++count;
    return count;
}

TEST(Timeline, DrawsOneBarForEachTaskInTheWindow) {
    CostPlan cost(1);
    cost.compute(0, 10);
    cost.compute(0, 10);
    EXPECT_EQ(bars(timeline_svg(cost.plan, plain_machine(), std::nullopt)), 2U);
    EXPECT_EQ(bars(timeline_svg(cost.plan, plain_machine(), Window{0, 5})), 1U);
}

TEST(Timeline, ABarIsAsLongAsItsTask) {
    CostPlan cost(1);
    cost.compute(0, 10);
    cost.compute(0, 30);
    const std::string svg = timeline_svg(cost.plan, plain_machine(), std::nullopt);
    EXPECT_NE(svg.find("width=\"250.00\""), std::string::npos) << svg;
    EXPECT_NE(svg.find("width=\"750.00\""), std::string::npos) << svg;
}

TEST(Timeline, RefusesAWindowOutsideTheLaunch) {
    CostPlan cost(1);
    cost.compute(0, 10);
    EXPECT_THROW(static_cast<void>(timeline_svg(cost.plan, plain_machine(), Window{20, 30})), UserError);
    EXPECT_THROW(static_cast<void>(timeline_svg(cost.plan, plain_machine(), Window{5, 5})), UserError);
}

}  // namespace
}  // namespace stretto
