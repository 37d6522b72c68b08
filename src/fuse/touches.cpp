#include "fuse/touches.h"

#include <algorithm>

namespace stretto {
namespace {

Touches::OfRegion touches_of(const Region& region) {
    Touches::OfRegion touches;
    for (const Use& use : uses(region)) {
        auto [entry, first] = touches.try_emplace(use.access->source);
        Touch& touch = entry->second;
        (use.write ? touch.writes : touch.reads) = true;
        Access plain = *use.access;
        plain.map = normalized(plain.map);
        if (first) touch.access = plain;
        if (touch.access != plain) touch.access.reset();
    }
    return touches;
}

}  // namespace

Touches::Touches(const RegionGraph& graph) : graph_(graph), of_region_(graph.regions.size()) {
    for (std::size_t r = 0; r < graph.regions.size(); ++r) update(r);
}

void Touches::update(std::size_t region) {
    for (const auto& [buffer, touch] : of_region_[region]) users_[buffer].erase(region);
    of_region_[region] = touches_of(graph_.regions[region]);
    for (const auto& [buffer, touch] : of_region_[region]) users_[buffer].insert(region);
}

std::size_t Touches::buffers_of_both(std::size_t first, std::size_t second) const {
    std::set<std::int32_t> buffers;
    for (const std::size_t r : {first, second}) {
        for (const auto& [buffer, touch] : of_region_[r]) buffers.insert(buffer);
    }
    return buffers.size();
}

std::optional<std::size_t> Touches::last_conflict(std::size_t region) const {
    std::optional<std::size_t> last;
    for (const auto& [buffer, touch] : of_region_[region]) {
        const std::set<std::size_t>& users = users_.at(buffer);
        for (auto user = std::make_reverse_iterator(users.lower_bound(region)); user != users.rend();
             ++user) {
            if (!conflict(buffer, touch, *user)) continue;
            last = std::max(last, std::optional(*user));
            break;
        }
    }
    return last;
}

std::optional<std::size_t> Touches::first_conflict(std::size_t region) const {
    std::optional<std::size_t> first;
    for (const auto& [buffer, touch] : of_region_[region]) {
        const std::set<std::size_t>& users = users_.at(buffer);
        for (auto user = users.upper_bound(region); user != users.end(); ++user) {
            if (!conflict(buffer, touch, *user)) continue;
            if (!first || *user < *first) first = *user;
            break;
        }
    }
    return first;
}

bool Touches::conflict(std::size_t first, std::size_t second) const {
    const OfRegion& touched = of_region_[first];
    return std::any_of(touched.begin(), touched.end(), [&](const auto& entry) {
        const auto& [buffer, touch] = entry;
        return of_region_[second].count(buffer) > 0 && conflict(buffer, touch, second);
    });
}

std::optional<std::size_t> Touches::last_writer(std::int32_t buffer, std::size_t region) const {
    const std::set<std::size_t>& users = users_.at(buffer);
    const auto writes = [&](std::size_t user) { return of_region_[user].at(buffer).writes; };
    const auto found =
        std::find_if(std::make_reverse_iterator(users.lower_bound(region)), users.rend(), writes);
    return found == users.rend() ? std::nullopt : std::optional(*found);
}

bool Touches::is_for(std::int32_t buffer, std::size_t reader) const {
    if (graph_.buffers[static_cast<std::size_t>(buffer)].role != BufferRole::Arena) return false;
    const std::set<std::size_t>& users = users_.at(buffer);
    return users.size() == 2 && users.count(reader) > 0 && !of_region_[reader].at(buffer).writes;
}

bool Touches::is_filled_by(std::int32_t buffer, std::size_t writer) const {
    if (graph_.buffers[static_cast<std::size_t>(buffer)].role != BufferRole::Arena) return false;
    const std::set<std::size_t>& users = users_.at(buffer);
    return std::all_of(users.begin(), users.end(), [&](std::size_t region) {
        return of_region_[region].at(buffer).writes == (region == writer);
    });
}

bool is_injective(const Access& access) { return access.indirect.empty() && is_injective(access.map); }

}  // namespace stretto
