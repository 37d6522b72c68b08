#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/session.h"

namespace stretto::cli {

/// What the inputs of a program are.
struct InputOptions {
    std::vector<std::string> inputs;
    std::optional<std::uint64_t> seed;
};

/// --input and --seed. `options` outlives the command.
void add_input_options(CLI::App& command, InputOptions& options);

/// Throws UserError naming the input that is missing, or not the program's.
void give_inputs(Session& session, const InputOptions& options);

}  // namespace stretto::cli
