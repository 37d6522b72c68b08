#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "base/error.h"
#include "profile/stamps.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

constexpr std::array kMoments{&TaskTimes::begun, &TaskTimes::ready, &TaskTimes::staged, &TaskTimes::computed,
                              &TaskTimes::published};

/// An SM clock: what it shows at a moment given in nanoseconds.
struct Clock {
    double start = 0;
    double cycles_per_ns = 1;

    [[nodiscard]] abi::U64 at(double ns) const {
        return static_cast<abi::U64>(std::llround(start + cycles_per_ns * ns));
    }
    [[nodiscard]] abi::WorkerStamps pairs(double begin, double end) const {
        const auto timer = [](double ns) { return static_cast<abi::U64>(ns); };
        return {{timer(begin), at(begin), 32}, {timer(end), at(end), 32}};
    }
};

/// Every kind, over several workers; random moments, seen through a clock of its own for each worker.
class StampsOfALaunch : public testing::Test {
protected:
    StampsOfALaunch() {
        stamps.tasks.resize(plan.graph.tasks.size());
        truth.resize(plan.graph.tasks.size());
        for (const Worker& worker : plan.workers) {
            const Clock clock{1e12 * unit(), 1 + unit()};
            stamps.workers.push_back(clock.pairs(kBegin + std::floor(1000 * unit()), kBegin + 900'000));
            double now = kBegin + 1000;
            for (const Step& step : worker.queue) {
                TaskTimes& times = truth[step.task.index()];
                for (auto moment : kMoments) times.*moment = now += 5000 * unit();
                stamps.tasks[step.task.index()] = {
                    clock.at(times.begun),     clock.at(times.ready),
                    clock.at(times.staged),    clock.at(times.computed),
                    clock.at(times.published), clock.at(times.staged + 100) - clock.at(times.staged)};
            }
            for (std::size_t i = 0; i < worker.stream.size(); ++i) {
                issued.push_back(kBegin + 500'000 * unit());
                stamps.loads.push_back(clock.at(issued.back()));
            }
        }
    }

    double unit() { return std::uniform_real_distribution(0.0, 1.0)(random); }

    static constexpr double kBegin = 1e12;
    /// In microseconds: a clock value is a whole cycle, of 1 ns at most, and so are the two that a time is compared with.
    static constexpr double kRounding = 2e-3;
    std::mt19937_64 random{7};
    Plan plan = sample::every_kind(builtin_machine("h200"), 4);
    Stamps stamps;
    std::vector<TaskTimes> truth;
    std::vector<double> issued;
};

TEST_F(StampsOfALaunch, GoOnOneClock) {
    const Trace trace = align(stamps, plan);
    double first = truth[0].begun;
    for (const TaskTimes& task : truth) first = std::min(first, task.begun);
    for (double time : issued) first = std::min(first, time);
    for (std::size_t t = 0; t < truth.size(); ++t) {
        for (auto moment : kMoments) {
            EXPECT_NEAR(trace.tasks[t].*moment, (truth[t].*moment - first) * 1e-3, kRounding) << t;
        }
    }
    std::size_t load = 0;
    for (const std::vector<double>& worker : trace.loads) {
        for (double time : worker) EXPECT_NEAR(time, (issued[load++] - first) * 1e-3, kRounding);
    }
    EXPECT_EQ(load, issued.size());
    for (const TaskTimes& task : trace.tasks) EXPECT_NEAR(task.stalled, 0.1, kRounding);
    EXPECT_EQ(trace.tick, 0.032);
}

TEST_F(StampsOfALaunch, KeepTheirOrder) {
    const Trace trace = align(stamps, plan);
    for (const Worker& worker : plan.workers) {
        double before = 0;
        for (const Step& step : worker.queue) {
            for (auto moment : kMoments) {
                EXPECT_LE(before, trace.tasks[step.task.index()].*moment);
                before = trace.tasks[step.task.index()].*moment;
            }
            EXPECT_LE(before, trace.total);
        }
    }
}

TEST_F(StampsOfALaunch, TaskThatStagesNothingIsStagedWhenItIsReady) {
    stamps.tasks[1].staged = 0;
    const Trace trace = align(stamps, plan);
    EXPECT_EQ(trace.tasks[1].staged, trace.tasks[1].ready);
}

TEST_F(StampsOfALaunch, TaskIsReadyWithTheInputsThatItStages) {
    stamps.tasks[1].ready = stamps.tasks[1].computed - 1;
    const Trace trace = align(stamps, plan);
    EXPECT_EQ(trace.tasks[1].ready, trace.tasks[1].staged);
}

TEST_F(StampsOfALaunch, MissingStampIsABug) {
    stamps.tasks[1].published = 0;
    EXPECT_THROW(static_cast<void>(align(stamps, plan)), InternalError);
}

}  // namespace
}  // namespace stretto
