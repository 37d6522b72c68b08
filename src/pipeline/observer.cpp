#include "pipeline/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "base/error.h"

namespace stretto {
namespace {

constexpr std::array<std::string_view, 7> kStages{"simplify", "fuse",   "tile", "schedule",
                                                  "memory",   "verify", "emit"};

void write_file(const std::filesystem::path& path, const std::string& text) {
    std::error_code ignored;  // a folder that cannot be made shows as a file that cannot be written
    std::filesystem::create_directories(path.parent_path(), ignored);
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) {
        throw UserError(
            fmt::format("cannot write '{}'. Let STRETTO_DUMP_DIR name a folder that can be written, "
                        "or unset it to dump to standard error",
                        path.string()));
    }
}

std::string_view value_or_empty(const char* value) { return value == nullptr ? std::string_view() : value; }

}  // namespace

ObserverSettings observer_settings(const char* dump, const char* directory, const char* time) {
    ObserverSettings settings;
    std::istringstream stages{std::string(value_or_empty(dump))};
    for (std::string stage; std::getline(stages, stage, ',');) {
        if (std::find(kStages.begin(), kStages.end(), stage) == kStages.end()) {
            throw UserError(fmt::format("STRETTO_DUMP names '{}', which is no stage. The stages are {}",
                                        stage, fmt::join(kStages, ", ")));
        }
        settings.dump.push_back(stage);
    }
    settings.directory = value_or_empty(directory);
    const std::string_view wanted = value_or_empty(time);
    settings.time = !wanted.empty() && wanted != "0";
    return settings;
}

ObserverSettings observer_settings_of_environment() {
    return observer_settings(std::getenv("STRETTO_DUMP"), std::getenv("STRETTO_DUMP_DIR"),
                             std::getenv("STRETTO_TIME"));
}

std::string to_text(const std::vector<Fault>& faults) {
    std::string text;
    for (const Fault& fault : faults) text += fmt::format("{}: {}\n", name(fault.kind), fault.message);
    return text;
}

std::string to_text(const Emission& emission) { return emission.source; }

Observer::Observer(ObserverSettings settings, std::ostream& log)
    : settings_(std::move(settings)), log_(log) {}

void Observer::record(std::string_view stage, std::chrono::duration<double, std::milli> time) {
    times_.push_back({stage, time.count()});
    if (settings_.time) log_ << fmt::format("stretto: {:<10}{:9.1f} ms\n", stage, time.count());
}

bool Observer::dumps(std::string_view stage) const {
    return std::find(settings_.dump.begin(), settings_.dump.end(), stage) != settings_.dump.end();
}

void Observer::dump(std::string_view stage, const std::string& text) const {
    if (settings_.directory.empty()) {
        log_ << "# " << stage << '\n' << text;
    } else {
        write_file(std::filesystem::path(settings_.directory) / (std::string(stage) + ".txt"), text);
    }
}

}  // namespace stretto
