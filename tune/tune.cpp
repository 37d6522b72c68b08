#include "tune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>

#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "cost/simulate.h"
#include "graph/text.h"
#include "schedule/text.h"

namespace stretto {
namespace {

/// Less is noise: medians of launches in turns repeat to about so much.
constexpr double kLeastGain = 0.005;

class Search {
public:
    Search(const Planner& planner, const Contest& contest, const Machine& machine,
           const TuneSettings& settings, const TuneProgress& progress)
        : planner_(planner),
          contest_(contest),
          machine_(machine),
          settings_(settings),
          progress_(progress),
          log_(settings.log) {}

    Tuned run() {
        asked_.insert(to_text(PlanOptions{}));
        plan({}, 1, 1);
        double best = settings_.simulate_only ? result_.trials.front().predicted_us : 1;
        while (!result_.complete) {
            const std::vector<std::size_t> round = predict();
            const auto fastest = settings_.simulate_only ? first_of(round) : time(round);
            if (late_) break;
            const bool gained = fastest && score(*fastest) < best * (1 - kLeastGain);
            if (gained) {
                best = score(*fastest);
                result_.best = result_.trials[*fastest].options;
            }
            result_.complete = !gained;
        }
        return std::move(result_);
    }

private:
    using Time = std::chrono::steady_clock;

    [[nodiscard]] double seconds() const {
        return std::chrono::duration<double>(Time::now() - start_).count();
    }
    [[nodiscard]] bool is_late() { return late_ = late_ || seconds() > settings_.seconds; }

    void show(std::string_view what, const PlanOptions& options, std::size_t number,
              std::size_t count) const {
        if (progress_) progress_({what, to_text(options), number, count, seconds()});
    }

    [[nodiscard]] double score(std::size_t trial) const {
        const Trial& each = result_.trials[trial];
        return settings_.simulate_only ? each.predicted_us : each.comparison->ratio();
    }

    /// Adds a trial, unless its plan is known.
    bool plan(const PlanOptions& options, std::size_t number, std::size_t count) {
        show("planning", options, number, count);
        try {
            const Compiled compiled = planner_(options);
            if (!plans_.insert(content_hash(to_text(compiled.plan))).second) return false;
            result_.trials.push_back(
                {options, simulate(compiled.plan, compiled.options.machine).total, std::nullopt});
            return true;
        } catch (const UserError&) {
            return false;  // the machine has no room for such a plan
        }
    }

    /// Trials of the best options' neighbours, the fastest by prediction first.
    std::vector<std::size_t> predict() {
        std::vector<std::size_t> round;
        const std::vector<PlanOptions> next = neighbours(result_.best, machine_);
        for (std::size_t i = 0; i < next.size() && !is_late(); ++i) {
            if (!asked_.insert(to_text(next[i])).second) continue;
            if (plan(next[i], i + 1, next.size())) round.push_back(result_.trials.size() - 1);
        }
        std::stable_sort(round.begin(), round.end(), [&](std::size_t a, std::size_t b) {
            return result_.trials[a].predicted_us < result_.trials[b].predicted_us;
        });
        return round;
    }

    static std::optional<std::size_t> first_of(const std::vector<std::size_t>& round) {
        return round.empty() ? std::nullopt : std::optional(round.front());
    }

    /// Runs the first trials of a round; the fastest one.
    std::optional<std::size_t> time(const std::vector<std::size_t>& round) {
        std::optional<std::size_t> fastest;
        const std::size_t count = std::min(round.size(), settings_.timed);
        for (std::size_t i = 0; i < count; ++i) {
            Trial& trial = result_.trials[round[i]];
            trial.comparison = log_.find(trial.options);
            if (!trial.comparison) {
                if (is_late()) return fastest;
                show("timing", trial.options, i + 1, count);
                trial.comparison = contest_(planner_(trial.options));
                log_.add(trial.options, *trial.comparison);
            }
            if (!trial.comparison->fault.empty()) continue;
            if (!fastest || score(round[i]) < score(*fastest)) fastest = round[i];
        }
        return fastest;
    }

    const Planner& planner_;
    const Contest& contest_;
    const Machine& machine_;
    const TuneSettings& settings_;
    const TuneProgress& progress_;
    TrialLog log_;
    Time::time_point start_ = Time::now();
    bool late_ = false;
    std::set<std::string> asked_;  ///< texts of options
    std::set<std::string> plans_;  ///< hashes of their plans
    Tuned result_;
};

}  // namespace

std::string trial_log_path(const Graph& graph, const Compiled& untuned, std::string_view backend) {
    const std::string folder = cache_folder();
    if (folder.empty()) return {};
    const std::string key =
        content_hash(fmt::format("{}{}{}{}{}", to_text(graph), to_json(untuned.options.machine), backend,
                                 to_text(untuned.plan), untuned.emission.source));
    return fmt::format("{}/tune/{}.json", folder, key);
}

std::vector<PlanOptions> neighbours(const PlanOptions& options, const Machine& machine) {
    std::vector<PlanOptions> all;
    const auto vary = [&](auto member, auto... values) {
        for (const auto value : {values...}) {
            if (options.*member == value) continue;
            all.push_back(options);
            all.back().*member = value;
        }
    };
    vary(&PlanOptions::words, true, false);
    if (options.words) vary(&PlanOptions::words_up_to, 0.5, 1.0, 2.0, 4.0);
    vary(&PlanOptions::recompute_up_to, 0.25, 0.5, 1.0, 2.0, 4.0);
    vary(&PlanOptions::attention_splits, 0, 1, 2, 4, 8);
    vary(&PlanOptions::product_parts, 1, 4, 32);
    vary(&PlanOptions::task_panels, 1, 2, 4);
    std::set<std::int32_t> workers{machine.workers * 31 / 32, machine.workers * 3 / 4, machine.workers / 2};
    workers.erase(0);
    workers.insert(0);  // all
    for (const std::int32_t count : workers) {
        if (count != machine.workers) vary(&PlanOptions::workers, count);
    }
    return all;
}

Tuned tune(const Planner& planner, const Contest& contest, const Machine& machine,
           const TuneSettings& settings, const TuneProgress& progress) {
    return Search(planner, contest, machine, settings, progress).run();
}

std::string tune_report(const Tuned& tuned) {
    std::string text =
        fmt::format("{:>12} {:>12} {:>10}  {}\n", "predicted us", "measured us", "of untuned", "plan");
    const auto out = std::back_inserter(text);
    for (std::size_t i = 0; i < tuned.trials.size(); ++i) {
        const Trial& trial = tuned.trials[i];
        const std::string plan = i == 0 ? "untuned" : to_text(trial.options);
        std::string measured = "-";
        std::string ratio = "-";
        std::string fault;
        if (trial.comparison && !trial.comparison->fault.empty()) {
            fault = ": " + trial.comparison->fault;
        } else if (trial.comparison) {
            measured = fmt::format("{:.1f}", trial.comparison->measured_us);
            ratio = fmt::format("{:.3f}", trial.comparison->ratio());
        }
        fmt::format_to(out, "{:>12.1f} {:>12} {:>10}  {}{}\n", trial.predicted_us, measured, ratio, plan,
                       fault);
    }
    const std::string best = to_text(tuned.best);
    fmt::format_to(out, "best: {}{}\n", best.empty() ? "untuned" : best,
                   tuned.complete ? "" : " (the time was over: run it again to go on)");
    return text;
}

}  // namespace stretto
