#include <fmt/format.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/models.h"
#include "cli/status.h"

namespace stretto::cli {
namespace {

struct Options {
    std::string model;
    std::string output;
    std::string machine = "h200";
    std::string numerics = "fused";
    std::vector<std::string> without;
    std::string plan;
};

std::int64_t weight_bytes(const Program& program) {
    std::int64_t bytes = 0;
    std::set<const std::byte*> seen;
    for (const auto& [name, tensor] : program.tensors) {
        if (seen.insert(tensor.bytes.get()).second) bytes += static_cast<std::int64_t>(tensor.size);
    }
    return bytes;
}

void run(const Options& options) {
    const Program program =
        program_from(options.model, {machine_named(options.machine), numerics_named(options.numerics),
                                     stretto::without(options.without, parse_plan_options(options.plan))});
    {
        const Status status("writing " + options.output);
        save_program(program, options.output);
    }
    const Plan& plan = program.plan;
    fmt::print(
        "{}: {} regions, {} tasks on {} workers, {} events, {} kinds, {:.1f} KB arena, {:.1f} MB weights\n",
        options.output, plan.graph.regions.regions.size(), plan.graph.tasks.size(), plan.workers.size(),
        plan.events.size(), program.emission.kinds.size(), static_cast<double>(plan.arena_bytes) / 1e3,
        static_cast<double>(weight_bytes(program)) / 1e6);
}

}  // namespace

void add_compile(CLI::App& app) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("compile", "Compile an exported PyTorch program (.pt2) into a package");
    command->add_option("model", options->model, "File written by torch.export.save")->required();
    command->add_option("-o,--output", options->output, "Package to write, e.g. model.stretto")->required();
    command
        ->add_option("--machine", options->machine,
                     "Machine to plan for: h200, cpu, or a machine file (*.json)")
        ->capture_default_str();
    command
        ->add_option(
            "--numerics", options->numerics,
            "fused: one rounding at the end of each fused region; exact: every rounding of the source")
        ->capture_default_str();
    command
        ->add_option("--without", options->without,
                     "Parts of the compiler to leave out, to measure what they are worth: stream, words")
        ->delimiter(',');
    command->add_option(
        "--plan", options->plan,
        "Choices of the planner as 'stretto tune' names them, e.g. workers=128,words_up_to=2");
    command->callback([options] { run(*options); });
}

}  // namespace stretto::cli
