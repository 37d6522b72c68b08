#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "tune/trial.h"

namespace stretto {

struct TuneSettings {
    double seconds = 120;        ///< nothing is begun later than this
    std::size_t timed = 6;       ///< plans of each round that are run: those predicted fastest
    bool simulate_only = false;  ///< predictions decide
    std::string log;             ///< file of the TrialLog; empty: none
};

/// Plans the program. Throws UserError where the options cannot be carried out.
using Planner = std::function<Compiled(const PlanOptions&)>;
/// Runs a plan beside the untuned one (tune/contest.h).
using Contest = std::function<Comparison(const Compiled& candidate)>;

/// What a search is about to do, for people.
struct TuneStep {
    std::string_view what;  ///< "planning" or "timing"
    std::string plan;       ///< text of the options
    std::size_t number = 0;
    std::size_t count = 0;  ///< of this round
    double seconds = 0;     ///< since the search began
};
using TuneProgress = std::function<void(const TuneStep&)>;

struct Tuned {
    PlanOptions best;
    std::vector<Trial> trials;  ///< in the order in which they were tried; the untuned plan first
    bool complete = false;      ///< no neighbour of the best is left; else the time was over
};

/// The file of the cache for the trials of one program where it runs, e.g. on "cuda"; empty where there is no cache. Its
/// name is a hash of all that times depend on: the program, the machine, the backend, and the compiler, which the untuned
/// plan and its source show.
[[nodiscard]] std::string trial_log_path(const Graph& graph, const Compiled& untuned,
                                         std::string_view backend);

/// Options that differ from these in one choice and make sense on a machine.
[[nodiscard]] std::vector<PlanOptions> neighbours(const PlanOptions& options, const Machine& machine);

/// Looks for faster plans: plans and simulates all neighbours of the best options so far, runs those predicted fastest,
/// moves to the fastest of them, and so on until none is faster. Which plans are tried depends on predictions and
/// measurements alone, so a search that was broken off repeats its way from the log and goes on.
/// Options that lead to a plan that is known already are left out.
[[nodiscard]] Tuned tune(const Planner& planner, const Contest& contest, const Machine& machine,
                         const TuneSettings& settings, const TuneProgress& progress = {});

/// A table for people: each plan with its predicted and measured times, and the best.
[[nodiscard]] std::string tune_report(const Tuned& tuned);

}  // namespace stretto
