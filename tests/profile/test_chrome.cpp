#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "profile/chrome.h"
#include "profile/traces.h"

namespace stretto {
namespace {

class Chrome : public testing::Test {
protected:
    Machine machine = builtin_machine("h200");
    Plan plan = sample::layered_plan(4, 3);
    Trace trace = sample::random_trace(plan, 1);
    std::string text = to_chrome(trace, plan, machine);
    nlohmann::json events = nlohmann::json::parse(text).at("traceEvents");
};

TEST_F(Chrome, ReadsBack) { EXPECT_EQ(parse_chrome(text, plan, "trace"), trace); }

TEST_F(Chrome, ShowsEveryTaskOnce) {
    std::map<int, int> shown;
    for (const auto& event : events) {
        if (event.contains("args") && event["args"].contains("times")) ++shown[event["args"]["task"]];
    }
    EXPECT_EQ(shown.size(), plan.graph.tasks.size());
    for (const auto& [task, times] : shown) EXPECT_EQ(times, 1) << task;
}

TEST_F(Chrome, BarsOfARowNestOrFollowEachOther) {
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> open;
    constexpr double kPrinted = 2e-4;  // times are printed to 1e-4 us
    for (const auto& event : events) {
        if (event["ph"] != "X") continue;
        const double begin = event["ts"];
        const double end = begin + event["dur"].get<double>();
        auto& stack = open[{event["pid"], event["tid"]}];
        while (!stack.empty() && stack.back().second <= begin + kPrinted) stack.pop_back();
        if (!stack.empty()) {
            EXPECT_GE(begin, stack.back().first - kPrinted) << event;
            EXPECT_LE(end, stack.back().second + kPrinted) << event;
        }
        stack.emplace_back(begin, end);
    }
    EXPECT_EQ(open.size(), 3 * plan.workers.size());  // tasks, publishing, loads
}

TEST_F(Chrome, ArrowsHaveTwoEnds) {
    std::map<int, std::string> ends;
    for (const auto& event : events) {
        const std::string phase = event["ph"];
        if (phase == "s" || phase == "f") ends[event["id"]] += phase;
    }
    EXPECT_FALSE(ends.empty());
    for (const auto& [arrow, both] : ends) EXPECT_EQ(both, "sf") << arrow;
}

TEST_F(Chrome, RefusesOtherTextAndOtherPlans) {
    const auto message = [&](std::string_view other, const Plan& of) -> std::string {
        try {
            static_cast<void>(parse_chrome(other, of, "t.json"));
        } catch (const UserError& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_EQ(message("[]", plan), "t.json: not a trace; 'stretto trace' writes them");
    EXPECT_EQ(message(text.substr(0, text.size() / 2), plan),
              "t.json: not a trace; 'stretto trace' writes them");
    EXPECT_EQ(message(text, sample::layered_plan(4, 2)),
              "t.json: a trace of another plan; trace this program again");
}

}  // namespace
}  // namespace stretto
