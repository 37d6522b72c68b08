#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "cli/commands.h"
#include "runtime/program.h"

namespace {

constexpr int kUserFault = 1;
constexpr int kBug = 2;

int report(int status, const char* message) {
    fmt::print(stderr, "stretto: {}\n", message);
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Compiles a PyTorch program into one persistent kernel, and runs it.", "stretto");
    app.set_version_flag("--version", std::string(stretto::kVersion));
    app.require_subcommand(1);
    app.failure_message(CLI::FailureMessage::simple);
    stretto::cli::add_compile(app);
    stretto::cli::add_run(app);
    stretto::cli::add_verify(app);
    stretto::cli::add_dump(app);
    stretto::cli::add_explain(app);
    stretto::cli::add_trace(app);
    stretto::cli::add_probe(app);
    stretto::cli::add_tune(app);
    stretto::cli::add_bench(app);
    stretto::cli::add_check_update(app);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kUserFault;
    } catch (const stretto::UserError& error) {
        return report(kUserFault, error.what());
    } catch (const stretto::RunError& error) {
        return report(kUserFault, error.what());
    } catch (const std::exception& error) {
        report(kBug, error.what());
        return report(kBug, "this is a bug in Stretto; please report it with the command and its input");
    }
    return 0;
}
