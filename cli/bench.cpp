#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cli/commands.h"

namespace stretto::cli {
namespace {

/// What is compared with PyTorch lives in Python; this process becomes it.
[[noreturn]] void run_in_python(const std::string& module, const std::vector<std::string>& arguments) {
    const char* chosen = std::getenv("STRETTO_PYTHON");
    const std::string python = chosen != nullptr ? chosen : "python3";
    std::vector<std::string> words{python, "-m", module};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execvp(python.c_str(), pointers.data());
    throw UserError(fmt::format(
        "cannot run {}: {}\n  set STRETTO_PYTHON to a Python that has stretto and torch installed", python,
        std::strerror(errno)));
}

}  // namespace

void add_bench(CLI::App& app) {
    CLI::App* command =
        app.add_subcommand("bench", "Time Stretto and other systems side by side (needs Python and a GPU)");
    command->prefix_command();
    command->set_help_flag();
    command->callback([command] { run_in_python("stretto.bench", command->remaining()); });
}

void add_check_update(CLI::App& app) {
    CLI::App* command = app.add_subcommand(
        "check-update",
        "Compare a training update with PyTorch, region by region and over a trajectory (needs Python)");
    command->prefix_command();
    command->set_help_flag();
    command->callback([command] { run_in_python("stretto.check_update", command->remaining()); });
}

}  // namespace stretto::cli
