#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/models.h"
#include "cli/status.h"
#include "cost/explain.h"
#include "cost/timeline.h"
#include "fuse/text.h"
#include "graph/text.h"
#include "import/import.h"
#include "profile/chrome.h"
#include "profile/summary.h"
#include "schedule/text.h"

namespace stretto::cli {
namespace {

struct Options {
    std::string path;
    std::string machine = "h200";
    std::string numerics = "fused";
    std::string plan;
    std::string stage = "plan";
    std::vector<std::int64_t> tasks;
    std::string timeline;
    std::string trace;
    std::vector<double> window;
};

Program program_of(const Options& options) {
    return program_from(options.path, {machine_named(options.machine), numerics_named(options.numerics),
                                       parse_plan_options(options.plan)});
}

std::shared_ptr<Options> add_options(CLI::App& command) {
    auto options = std::make_shared<Options>();
    command
        .add_option("path", options->path, "Package (.stretto), or exported program (.pt2) to compile first")
        ->required();
    command
        .add_option("--machine", options->machine, "Machine to plan a .pt2 for: h200, cpu, or a machine file")
        ->capture_default_str();
    command.add_option("--numerics", options->numerics, "For a .pt2: fused or exact")->capture_default_str();
    command.add_option("--plan", options->plan, "For a .pt2: choices of the planner, e.g. workers=128");
    return options;
}

void verify(const Options& options) {
    // Compiling and loading both prove the plan; they throw every fault that they find.
    const Program program = program_of(options);
    const Plan& plan = program.plan;
    fmt::print("{}: proven safe: {} tasks on {} workers, {} events, {} buffers\n", options.path,
               plan.graph.tasks.size(), plan.workers.size(), plan.events.size(),
               plan.graph.regions.buffers.size());
}

std::string graph_text(const std::string& path) {
    if (!is_exported(path)) {
        throw UserError(
            fmt::format("{}: a package holds no graph; give the .pt2 that it was compiled from", path));
    }
    return to_text(import_pt2(path).graph);
}

void dump(const Options& options) {
    if (options.stage == "graph") {
        fmt::print("{}", graph_text(options.path));
    } else if (options.stage == "regions") {
        fmt::print("{}", to_text(program_of(options).plan.graph.regions));
    } else if (options.stage == "plan") {
        fmt::print("{}", to_text(program_of(options).plan));
    } else if (options.stage == "source") {
        fmt::print("{}", program_of(options).emission.source);
    } else {
        throw UserError(
            fmt::format("unknown stage '{}'; known: graph, regions, plan, source", options.stage));
    }
}

void draw_timeline(const Program& program, const Options& options) {
    std::optional<Window> window;
    if (!options.window.empty()) window = Window{options.window[0], options.window[1]};
    const std::string picture = timeline_svg(program.plan, program.machine, window);
    write_file(options.timeline, picture);
}

void print_measured(const Program& program, const std::string& path) {
    const Trace trace = parse_chrome(read_file(path), program.plan, path);
    fmt::print("{}", hop_report(program.plan, trace, program.machine));
}

void explain(const Options& options) {
    if (options.tasks.empty()) {
        const Program program = program_of(options);
        if (!options.timeline.empty()) draw_timeline(program, options);
        fmt::print("{}", stretto::explain(program.plan, program.machine));
        if (!options.trace.empty()) print_measured(program, options.trace);
        return;
    }
    const Plan plan = is_exported(options.path) ? program_of(options).plan : load_plan(options.path);
    fmt::print("{}", explain_tasks(plan, TaskId(options.tasks[0]), TaskId(options.tasks[1])));
}

}  // namespace

void add_verify(CLI::App& app) {
    CLI::App* command = app.add_subcommand("verify", "Prove that a plan is free of races and deadlocks");
    auto options = add_options(*command);
    command->callback([options] { verify(*options); });
}

void add_dump(CLI::App& app) {
    CLI::App* command = app.add_subcommand("dump", "Print the text form of one stage's result");
    auto options = add_options(*command);
    command->add_option("--stage", options->stage, "graph (.pt2 only), regions, plan or source")
        ->capture_default_str();
    command->callback([options] { dump(*options); });
}

void add_explain(CLI::App& app) {
    CLI::App* command = app.add_subcommand("explain", "Say where the predicted time of a plan goes");
    auto options = add_options(*command);
    command
        ->add_option("--tasks", options->tasks,
                     "A,B: instead, say how the plan orders two tasks (also of a package "
                     "that does not verify)")
        ->delimiter(',')
        ->expected(2);
    command->add_option("--timeline", options->timeline, "Also draw the predicted launch into this SVG file");
    command->add_option(
        "--trace", options->trace,
        "File that 'stretto trace' wrote: also show its critical path, measured beside predicted");
    command->add_option("--window", options->window, "BEGIN,END in us: the part of the launch to draw")
        ->delimiter(',')
        ->expected(2);
    command->callback([options] { explain(*options); });
}

}  // namespace stretto::cli
