#include "tune/probe.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/status.h"
#include "tune/launch_clock.h"

namespace stretto::cli {
namespace {

struct Options {
    std::string machine = "h200";
    std::string backend = "cuda";
    std::string output;
};

void probe(const Options& options) {
    const Machine base = machine_named(options.machine);
    const Backend backend = parse_backend(options.backend);
    Machine here = machine_here(base, backend);
    here.name = std::filesystem::path(options.output).stem().string();
    std::optional<Status> status;
    const auto progress = [&](const Probe& each, std::size_t number, std::size_t count) {
        status.emplace(fmt::format("[{}/{}] {}: {}", number, count, each.quantity.field, each.what));
    };
    const ProbeResult result = stretto::probe(here, probe_sizes(here), launch_clock(backend), progress);
    status.reset();
    write_file(options.output, to_json(result.machine));
    fmt::print("{}{}: compile for it with --machine {}\n", probe_report(base, result), options.output,
               options.output);
}

}  // namespace

void add_probe(CLI::App& app) {
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand(
        "probe", "Measure what this machine's memory, cores and hand-offs cost; write its machine file");
    command
        ->add_option("--machine", options->machine,
                     "Machine whose numbers stand where nothing is measured: h200, cpu, or a machine file")
        ->capture_default_str();
    command->add_option("--backend", options->backend, "What to measure: cuda or cpu")->capture_default_str();
    command->add_option("-o,--output", options->output, "Machine file to write, e.g. mine.json")->required();
    command->callback([options] { probe(*options); });
}

}  // namespace stretto::cli
