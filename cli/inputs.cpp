#include "cli/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "runtime/tensors.h"

namespace stretto::cli {
namespace {

/// "name=file.npy" or "name=random", by name.
std::map<std::string, std::string> sources_of(const InputOptions& options) {
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

}  // namespace

void add_input_options(CLI::App& command, InputOptions& options) {
    command.add_option("--input", options.inputs, "NAME=FILE.npy or NAME=random; once for each input");
    command.add_option("--seed", options.seed,
                       "Seed of random inputs; also fills every input that --input does not name");
}

void give_inputs(Session& session, const InputOptions& options) {
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

}  // namespace stretto::cli
