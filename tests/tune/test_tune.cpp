#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "support/decode_graph.h"
#include "support/machines.h"
#include "tune/probe_programs.h"
#include "tune/tune.h"
#include "verify/verify.h"

namespace stretto {
namespace {

Machine machine() { return h200_of(8); }

Compiled plan_of(const PlanOptions& options) {
    const RegionGraph products = streamed_products(machine(), Rows::Chained, 3, 1);
    return compile_regions(products, {machine(), Numerics::Fused, options});
}

/// A device on which two choices pay.
Comparison pretended(const Compiled& candidate) {
    const PlanOptions& options = candidate.options.plan;
    const double share = (options.task_panels == 2 ? 0.9 : 1) * (options.workers == 6 ? 0.8 : 1);
    return {100, 100 * share, ""};
}

TuneSettings settings() {
    TuneSettings all;
    all.timed = 100;
    return all;
}

std::string log_file(const char* name) {
    const auto path = std::filesystem::path(testing::TempDir()) / "stretto_tune" / name;
    std::filesystem::remove(path);
    return path.string();
}

TEST(Tune, MovesOnFromTheFastestPlanUntilNoneIsFaster) {
    const Tuned tuned = tune(plan_of, pretended, machine(), settings());
    EXPECT_EQ(to_text(tuned.best), "workers=6,task_panels=2");
    EXPECT_TRUE(tuned.complete);
    EXPECT_EQ(tuned.trials.front().options, PlanOptions{});
}

TEST(Tune, NeverChoosesAPlanThatIsAtFault) {
    const Tuned tuned = tune(
        plan_of,
        [](const Compiled& candidate) {
            return candidate.options.plan.workers == 6 ? Comparison{0, 0, "'y' differs"}
                                                       : pretended(candidate);
        },
        machine(), settings());
    EXPECT_EQ(to_text(tuned.best), "task_panels=2");
    EXPECT_NE(tune_report(tuned).find("workers=6: 'y' differs"), std::string::npos) << tune_report(tuned);
}

TEST(Tune, KeepsTheUntunedPlanWhereOthersAreFasterByLessThanNoise) {
    const Tuned tuned = tune(
        plan_of,
        [](const Compiled&) {
            return Comparison{100, 99.8, ""};
        },
        machine(), settings());
    EXPECT_EQ(tuned.best, PlanOptions{});
    EXPECT_TRUE(tuned.complete);
}

TEST(Tune, RunsThosePredictedFastestOnly) {
    TuneSettings few = settings();
    few.timed = 2;
    const Tuned tuned = tune(
        plan_of,
        [](const Compiled&) {
            return Comparison{100, 100, ""};
        },
        machine(), few);
    double slowest_run = 0;
    double fastest_not_run = 1e9;
    for (std::size_t i = 1; i < tuned.trials.size(); ++i) {
        const Trial& trial = tuned.trials[i];
        double& bound = trial.comparison ? slowest_run : fastest_not_run;
        bound = trial.comparison ? std::max(bound, trial.predicted_us) : std::min(bound, trial.predicted_us);
    }
    EXPECT_GT(slowest_run, 0);
    EXPECT_LE(slowest_run, fastest_not_run);
}

TEST(Tune, RunsNothingWhereItOnlySimulates) {
    TuneSettings simulated = settings();
    simulated.simulate_only = true;
    const Tuned tuned = tune(plan_of, {}, machine(), simulated);
    EXPECT_TRUE(tuned.complete);
    double fastest = 1e9;
    double best = 0;
    for (const Trial& trial : tuned.trials) {
        fastest = std::min(fastest, trial.predicted_us);
        if (trial.options == tuned.best) best = trial.predicted_us;
    }
    EXPECT_LE(best, fastest * 1.01);
}

TEST(Tune, BeginsNothingWhenTheTimeIsOver) {
    TuneSettings late = settings();
    late.seconds = 0;
    const Tuned tuned = tune(
        plan_of, [](const Compiled&) -> Comparison { throw std::logic_error("late"); }, machine(), late);
    EXPECT_EQ(tuned.best, PlanOptions{});
    EXPECT_FALSE(tuned.complete);
}

TEST(Tune, GoesOnWhereASearchWasBrokenOff) {
    TuneSettings logged = settings();
    logged.log = log_file("broken_off.json");
    int runs = 0;
    const auto counted = [&](const Compiled& candidate) {
        ++runs;
        return pretended(candidate);
    };
    const Tuned whole = tune(plan_of, counted, machine(), settings());
    const int all = runs;
    ASSERT_GT(all, 5);
    runs = 0;
    const auto broken = [&](const Compiled& candidate) {
        if (runs == 4) throw std::runtime_error("broken off");
        return counted(candidate);
    };
    EXPECT_THROW(static_cast<void>(tune(plan_of, broken, machine(), logged)), std::runtime_error);
    const Tuned resumed = tune(plan_of, counted, machine(), logged);
    EXPECT_EQ(runs, all);
    EXPECT_EQ(tune_report(resumed), tune_report(whole));
    static_cast<void>(tune(plan_of, counted, machine(), logged));
    EXPECT_EQ(runs, all);
}

TEST(Tune, ShowsEveryStepBeforeItIsTaken) {
    std::vector<std::string> steps;
    static_cast<void>(tune(plan_of, pretended, machine(), settings(), [&](const TuneStep& step) {
        steps.push_back(std::string(step.what) + " " + step.plan);
    }));
    EXPECT_EQ(steps.front(), "planning ");
    EXPECT_NE(std::find(steps.begin(), steps.end(), "timing workers=6,task_panels=2"), steps.end());
}

TEST(Tune, NeighboursDifferInOneChoiceAndFitTheMachine) {
    PlanOptions from;
    from.workers = 4;
    const std::vector<PlanOptions> all = neighbours(from, machine());
    EXPECT_GT(all.size(), 10U);
    for (const PlanOptions& each : all) {
        EXPECT_NE(each, from);
        EXPECT_LT(each.workers, machine().workers);
        EXPECT_EQ(parse_plan_options(to_text(each)), each);
    }
}

TEST(Tune, EveryNeighbourOfADecodeStepVerifiesForAGpu) {
    const Graph graph = decode_graph(DecodeSizes{});
    const Machine gpu = builtin_machine("h200");
    for (const PlanOptions& options : neighbours({}, gpu)) {
        const Compiled compiled = compile(graph, {gpu, Numerics::Fused, options});
        EXPECT_EQ(compiled.options.plan, options);
        EXPECT_TRUE(verify(compiled.plan).empty()) << to_text(options);
    }
}

TEST(TrialLog, ReadsBackWhatWasMeasured) {
    const std::string path = log_file("read_back.json");
    const PlanOptions options = parse_plan_options("words=off,workers=3");
    TrialLog(path).add(options, {12.5, 11.25, ""});
    TrialLog(path).add({}, {1, 2, "'y' differs"});
    const TrialLog log(path);
    EXPECT_EQ(log.size(), 2U);
    EXPECT_EQ(log.find(options), (Comparison{12.5, 11.25, ""}));
    EXPECT_EQ(log.find({}), (Comparison{1, 2, "'y' differs"}));
    EXPECT_EQ(log.find(parse_plan_options("workers=3")), std::nullopt);
}

TEST(TrialLog, IsEmptyWhereItsFileIsDamaged) {
    const std::string path = log_file("damaged.json");
    TrialLog(path).add({}, {1, 2, ""});
    std::ofstream(path) << R"([{"plan": "", "untuned_us": 1, "measu)";
    EXPECT_EQ(TrialLog(path).size(), 0U);
    std::ofstream(path) << R"([{"plan": 7}])";
    EXPECT_EQ(TrialLog(path).size(), 0U);
}

}  // namespace
}  // namespace stretto
