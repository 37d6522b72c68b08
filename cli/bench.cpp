#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cli/commands.h"

namespace stretto::cli {
namespace {

/// The other systems live in Python, so the benchmark does, too; this process becomes it.
[[noreturn]] void run_in_python(const std::vector<std::string>& arguments) {
    const char* chosen = std::getenv("STRETTO_PYTHON");
    const std::string python = chosen != nullptr ? chosen : "python3";
    std::vector<std::string> words{python, "-m", "stretto.bench"};
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
    command->callback([command] { run_in_python(command->remaining()); });
}

}  // namespace stretto::cli
