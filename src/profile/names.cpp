#include "profile/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace stretto {
namespace {

std::vector<std::string> parts_of(const std::string& name) {
    std::vector<std::string> parts(1);
    for (const char c : name.substr(0, name.rfind('#'))) {
        if (c == '.') {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

bool is_number(const std::string& part) {
    return !part.empty() &&
           std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Number of leading parts, without any's last one, that all names have in common.
std::size_t common_parts(const std::vector<std::vector<std::string>>& names) {
    std::size_t common = names.empty() ? 0 : names.front().size() - 1;
    for (const auto& parts : names) {
        common = std::min(common, parts.size() - 1);
        const auto differs = std::mismatch(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(common),
                                           names.front().begin());
        common = static_cast<std::size_t>(differs.first - parts.begin());
    }
    return common;
}

struct Extents {
    std::string operator()(const MapRegion& region) const {
        return fmt::format("{}", fmt::join(region.space, "x"));
    }
    std::string operator()(const ReduceRegion& region) const {
        return fmt::format("{}", fmt::join(region.space, "x"));
    }
    std::string operator()(const MatMulRegion& region) const {
        return fmt::format("{}x{}", region.space[2], region.space[3]);
    }
    std::string operator()(const AttentionRegion& region) const {
        return fmt::format("{}x{}", region.space[3], region.space[4]);
    }
    std::string operator()(const ScoredRegion& region) const {
        return fmt::format("{}x{}", region.space[3], region.space[4]);
    }
};

}  // namespace

std::vector<std::string> phase_names(const RegionGraph& graph) {
    std::vector<std::vector<std::string>> parts;
    for (const Region& region : graph.regions) parts.push_back(parts_of(region.name));
    const std::size_t common = common_parts(parts);
    std::map<std::string, int> seen;  // by the name with its numbers
    std::vector<std::string> names;
    for (std::size_t r = 0; r < parts.size(); ++r) {
        const std::vector<std::string> own(parts[r].begin() + static_cast<std::ptrdiff_t>(common),
                                           parts[r].end());
        std::vector<std::string> starred = own;
        std::replace_if(starred.begin(), starred.end(), is_number, "*");
        const RegionBody& body = graph.regions[r].body;
        const std::string extents = std::visit(Extents{}, body);
        const std::string what =
            fmt::format("{} {}", kKindNames.at(body.index()), extents.empty() ? "of one" : extents);
        const int number = ++seen[fmt::format("{} {}", fmt::join(own, "."), what)];
        names.push_back(fmt::format("{} {}", fmt::join(starred, "."), what));
        if (number > 1) names.back() += fmt::format(" ({})", number);
    }
    return names;
}

}  // namespace stretto
