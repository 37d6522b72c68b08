#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "cli/commands.h"
#include "cli/status.h"
#include "runtime/session.h"
#include "runtime/tensors.h"

namespace stretto::cli {
namespace {

struct Options {
    std::string program;
    std::string backend = "cpu";
    std::vector<std::string> inputs;
    std::optional<std::uint64_t> seed;
    std::string output;
    int repeat = 1;
    std::uint32_t iterations = 1;
};

/// "name=file.npy" or "name=random", by name.
std::map<std::string, std::string> sources_of(const Options& options) {
    std::map<std::string, std::string> sources;
    for (const std::string& input : options.inputs) {
        const std::size_t at = input.find('=');
        if (at == std::string::npos) {
            throw UserError(fmt::format("--input {}: write NAME=FILE.npy or NAME=random", input));
        }
        sources[input.substr(0, at)] = input.substr(at + 1);
    }
    return sources;
}

HostTensor read_input(const std::string& source, const Buffer& buffer, std::uint64_t seed) {
    if (source == "random") return random_tensor(buffer.dtype, buffer.shape, seed);
    try {
        return converted(read_npy(source), buffer.dtype);
    } catch (const UserError& error) {
        throw UserError(fmt::format("--input {}={}: {}", buffer.name, source, error.what()));
    }
}

void give_inputs(Session& session, const Options& options) {
    const Program& program = session.program();
    auto sources = sources_of(options);
    std::uint64_t seed = options.seed.value_or(0);
    for (const std::string& name : program.inputs) {
        if (name.empty()) continue;
        if (options.seed) sources.try_emplace(name, "random");
        const Buffer& buffer = program.plan.graph.regions[buffer_named(program.plan, name)];
        const auto source = sources.find(name);
        if (source == sources.end()) {
            throw UserError(
                fmt::format("input '{}' ({}[{}]) is not given; add --input {}=FILE.npy, --input {}=random, "
                            "or --seed N for all inputs",
                            name, stretto::name(buffer.dtype), fmt::join(buffer.shape, ","), name, name));
        }
        session.set(name, read_input(source->second, buffer, seed++));
    }
    for (const auto& [name, source] : sources) {
        if (std::ranges::find(program.inputs, name) != program.inputs.end()) continue;
        throw UserError(fmt::format("--input {}={}: the program has no such input; it has {}", name, source,
                                    fmt::join(program.inputs, ", ")));
    }
}

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
    Session session(program, parse_backend(options.backend));
    give_inputs(session, options);
    status.emplace("running");
    for (int i = 0; i < options.repeat; ++i) session.run(options.iterations);
    status.reset();
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
    command->add_option("--input", options->inputs, "NAME=FILE.npy or NAME=random; once for each input");
    command->add_option("--seed", options->seed,
                        "Seed of random inputs; also fills every input that --input does not name");
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
