#include "tune/tune.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/models.h"
#include "cli/status.h"
#include "tune/contest.h"

namespace stretto::cli {
namespace {

struct Options {
    std::string model;
    std::string output;
    std::string machine = "h200";
    std::string numerics = "fused";
    std::string backend;
    InputOptions inputs;
    TuneSettings search;
    TimingSettings timing{.launch_us = 5'000, .most_iterations = 16, .rounds = 9};
    bool fresh = false;
};

void tune(const Options& options) {
    if (!is_exported(options.model)) {
        throw UserError(fmt::format(
            "{}: a package holds a plan, but no graph to plan again; give the .pt2 that it was compiled from",
            options.model));
    }
    std::optional<Status> status(std::in_place, "reading " + options.model);
    const Imported model = import_pt2(options.model);
    const CompileOptions usual{machine_named(options.machine), numerics_named(options.numerics), {}};
    const Planner planner = [&](const PlanOptions& plan) {
        CompileOptions changed = usual;
        changed.plan = plan;
        return compile(model.graph, changed);
    };
    status.emplace(fmt::format("compiling {} for {}", options.model, usual.machine.name));
    const Compiled untuned = planner({});
    const std::string default_backend = usual.machine.arch == "cpu" ? "cpu" : "cuda";
    const std::string backend = options.backend.empty() ? default_backend : options.backend;
    TuneSettings search = options.search;
    Contest run;
    if (!search.simulate_only) {
        search.log = trial_log_path(model.graph, untuned, backend);
        if (options.fresh) std::filesystem::remove(search.log);
        status.emplace("preparing the " + backend + " backend");
        run = contest(
            model, untuned, parse_backend(backend),
            [&](Session& session) { give_inputs(session, options.inputs); }, options.timing);
    }
    const auto progress = [&](const TuneStep& step) {
        status.emplace(fmt::format("{:.0f} of {:.0f} s: {} {}/{} {}", step.seconds, search.seconds, step.what,
                                   step.number, step.count, step.plan));
    };
    const Tuned tuned = stretto::tune(planner, run, usual.machine, search, progress);
    if (!options.output.empty()) {
        status.emplace("writing " + options.output);
        save_program(make_program(planner(tuned.best), model, options.model), options.output);
    }
    status.reset();
    fmt::print("{}", tune_report(tuned));
}

}  // namespace

void add_tune(CLI::App& app) {
    auto options = std::make_shared<Options>();
    options->inputs.seed = 0;
    CLI::App* command = app.add_subcommand(
        "tune", "Look for faster plans of an exported program: simulated first, then timed");
    command->add_option("model", options->model, "File written by torch.export.save")->required();
    command->add_option("-o,--output", options->output, "Package to write with the best plan");
    command
        ->add_option("--machine", options->machine,
                     "Machine to plan for: h200, cpu, or a machine file (*.json)")
        ->capture_default_str();
    command->add_option("--numerics", options->numerics, "fused or exact")->capture_default_str();
    command->add_option("--backend", options->backend,
                        "Where to run: reference, cpu or cuda; by default what the machine is");
    command->add_option("--seconds", options->search.seconds, "No plan is tried later than this")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command
        ->add_option("--timed", options->search.timed,
                     "Plans of each round that are run: those predicted fastest")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command
        ->add_option("--iterations", options->timing.most_iterations,
                     "Times, at most, that a timed launch runs its plan from the first state on")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_flag("--simulate-only", options->search.simulate_only,
                      "Run nothing: predictions decide, and no GPU is needed");
    command->add_flag("--fresh", options->fresh, "Forget what was measured before");
    add_input_options(*command, options->inputs);
    command->callback([options] { tune(*options); });
}

}  // namespace stretto::cli
