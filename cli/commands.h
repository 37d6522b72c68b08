#pragma once

#include <CLI/App.hpp>

namespace stretto::cli {

// Each adds one subcommand to the application; CLI11 calls it after parsing. Commands throw Errors.
void add_compile(CLI::App& app);
void add_run(CLI::App& app);
void add_verify(CLI::App& app);
void add_dump(CLI::App& app);
void add_explain(CLI::App& app);
void add_trace(CLI::App& app);
void add_probe(CLI::App& app);
void add_tune(CLI::App& app);
void add_bench(CLI::App& app);
void add_check_update(CLI::App& app);

}  // namespace stretto::cli
