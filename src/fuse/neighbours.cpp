#include "fuse/neighbours.h"

#include <algorithm>
#include <iterator>

namespace stretto {

std::optional<std::vector<std::size_t>> regions_behind(std::size_t first, std::size_t second,
                                                       const Touches& touches) {
    std::vector<std::size_t> behind;
    const auto waits_for_them = [&](std::size_t region) {
        return std::any_of(behind.begin(), behind.end(),
                           [&](std::size_t other) { return touches.conflict(other, region); });
    };
    for (std::size_t r = first + 1; r < second; ++r) {
        if (touches.conflict(first, r) || waits_for_them(r)) behind.push_back(r);
    }
    if (waits_for_them(second)) return std::nullopt;
    return behind;
}

void put_together(RegionGraph& graph, std::size_t first, std::size_t second, RegionBody body,
                  const std::vector<std::size_t>& behind) {
    std::vector<Region> moved{{"", MapRegion{}}};
    std::vector<Region> after;
    for (std::size_t r = first + 1; r < second; ++r) {
        const bool waits = std::find(behind.begin(), behind.end(), r) != behind.end();
        (waits ? after : moved).push_back(std::move(graph.regions[r]));
    }
    moved.push_back({std::move(graph.regions[second].name), std::move(body)});
    std::move(after.begin(), after.end(), std::back_inserter(moved));
    std::move(moved.begin(), moved.end(), graph.regions.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace stretto
