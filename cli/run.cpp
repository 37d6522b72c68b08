#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/hash.h"
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/status.h"
#include "runtime/session.h"
#include "runtime/tensors.h"

namespace stretto::cli {
namespace {

struct Options {
    std::string program;
    std::string backend = "cpu";
    bool packed_weights = false;
    InputOptions inputs;
    std::string output;
    int repeat = 1;
    std::uint32_t iterations = 1;
};

void report(const std::string& name, const HostTensor& tensor, const std::string& folder) {
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.get()), tensor.size);
    fmt::print("{}  {}[{}]  digest {}\n", name, stretto::name(tensor.dtype), fmt::join(tensor.shape, ","),
               content_hash(bytes));
    if (folder.empty()) return;
    std::filesystem::create_directories(folder);
    write_npy((std::filesystem::path(folder) / (name + ".npy")).string(), tensor);
}

void run(const Options& options) {
    std::optional<Status> status(std::in_place, "reading " + options.program);
    auto program = std::make_shared<const Program>(load_program(options.program));
    status.emplace("preparing the " + options.backend + " backend");
    Session session(program, parse_backend(options.backend), {.packed_weights = options.packed_weights});
    give_inputs(session, options.inputs);
    status.emplace("running");
    for (int i = 0; i < options.repeat; ++i) session.run(options.iterations);
    status.reset();
    print_warnings(session.warnings());
    for (const std::string& name : program->outputs) {
        if (!name.empty()) report(name, session.get(name), options.output);
    }
}

}  // namespace

void add_run(CLI::App& app) {
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand("run", "Run a package and print a digest of each output");
    command->add_option("program", options->program, "Package written by 'stretto compile'")->required();
    command->add_option("--backend", options->backend, "Where to run: reference, cpu or cuda")
        ->capture_default_str();
    command->add_flag("--packed-weights", options->packed_weights,
                      "On cuda, stream weights from packed copies, which take memory of their own");
    add_input_options(*command, options->inputs);
    command
        ->add_option("--repeat", options->repeat, "Number of launches; state is carried from one to the next")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command
        ->add_option("--iterations", options->iterations,
                     "Number of times that each launch runs the plan, without the host in between")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--output", options->output, "Folder that gets each output as NAME.npy");
    command->callback([options] { run(*options); });
}

}  // namespace stretto::cli
