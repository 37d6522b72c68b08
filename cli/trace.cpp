#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/status.h"
#include "profile/chrome.h"
#include "profile/summary.h"
#include "runtime/session.h"

namespace stretto::cli {
namespace {

struct Options {
    std::string program;
    std::string backend = "cuda";
    bool packed_weights = false;
    InputOptions inputs;
    int warm = 3;
    std::string output = "trace.json";
};

void trace(const Options& options) {
    std::optional<Status> status(std::in_place, "reading " + options.program);
    auto program = std::make_shared<const Program>(load_program(options.program));
    status.emplace("preparing the " + options.backend + " backend");
    Session session(program, parse_backend(options.backend),
                    {.traced = true, .packed_weights = options.packed_weights});
    give_inputs(session, options.inputs);
    status.emplace("running");
    for (int launch = 0; launch < options.warm; ++launch) session.run();
    session.reset_state();
    session.run();
    status.emplace("writing " + options.output);
    const Trace trace = session.trace();
    write_file(options.output, to_chrome(trace, program->plan, program->machine));
    status.reset();
    print_warnings(session.warnings());
    fmt::print("{}{}: open it at ui.perfetto.dev\n", summary(program->plan, trace, program->machine),
               options.output);
}

}  // namespace

void add_trace(CLI::App& app) {
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand(
        "trace", "Time every task of a launch: print where the time went, write a timeline");
    command->add_option("program", options->program, "Package written by 'stretto compile'")->required();
    command->add_option("--backend", options->backend, "Where to run: cpu or cuda")->capture_default_str();
    command->add_flag("--packed-weights", options->packed_weights,
                      "On cuda, stream weights from packed copies, which take memory of their own");
    add_input_options(*command, options->inputs);
    command
        ->add_option("--warm", options->warm,
                     "Launches before the timed one, which has the first state again")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command->add_option("-o,--output", options->output, "Chrome trace (JSON) to write")
        ->capture_default_str();
    command->callback([options] { trace(*options); });
}

}  // namespace stretto::cli
