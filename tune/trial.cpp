#include "tune/trial.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"

namespace stretto {
namespace {

using Json = nlohmann::ordered_json;

std::map<std::string, Comparison> read(const std::string& path) {
    std::map<std::string, Comparison> known;
    std::ifstream file(path);
    const Json list = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}), nullptr, false);
    if (!list.is_array()) return known;
    for (const Json& row : list) {
        try {
            known[row.at("plan").get<std::string>()] = {row.at("untuned_us").get<double>(),
                                                        row.at("measured_us").get<double>(),
                                                        row.at("fault").get<std::string>()};
        } catch (const Json::exception&) {
            return {};
        }
    }
    return known;
}

}  // namespace

TrialLog::TrialLog(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) known_ = read(path_);
}

std::optional<Comparison> TrialLog::find(const PlanOptions& options) const {
    const auto found = known_.find(to_text(options));
    if (found == known_.end()) return std::nullopt;
    return found->second;
}

void TrialLog::add(const PlanOptions& options, const Comparison& comparison) {
    known_[to_text(options)] = comparison;
    if (path_.empty()) return;
    Json list = Json::array();
    for (const auto& [plan, each] : known_) {
        list.push_back({{"plan", plan},
                        {"untuned_us", each.untuned_us},
                        {"measured_us", each.measured_us},
                        {"fault", each.fault}});
    }
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    write_file(path_, list.dump(1) + "\n");
}

}  // namespace stretto
