#include "fuse/join_scored.h"

#include <algorithm>
#include <optional>

#include "abi/abi.h"
#include "fuse/joined_stores.h"
#include "fuse/neighbours.h"
#include "fuse/scored.h"
#include "fuse/touches.h"

namespace stretto {
namespace {

bool can_join(const ScoredRegion& region) { return region.sums.front().factor && !region.softmax; }

bool share_a_score(const ScoredRegion& a, const ScoredRegion& b) {
    return std::any_of(a.scores.begin(), a.scores.end(), [&](const Score& x) {
        return std::any_of(b.scores.begin(), b.scores.end(), [&](const Score& y) { return is_same(x, y); });
    });
}

bool has_indirect_stores(const ScoredRegion& region) {
    return std::any_of(region.stores.begin(), region.stores.end(),
                       [](const Store& store) { return !store.indices.empty(); });
}

/// Both regions as one; nothing where it has no tile.
std::optional<ScoredRegion> joined(const ScoredRegion& first, const ScoredRegion& second,
                                   const Machine& machine) {
    ScoredRegion result = first;
    result.band = {std::min(first.band.begin, second.band.begin), std::max(first.band.end, second.band.end)};
    std::vector<std::size_t> score_numbers;
    for (const Score& score : second.scores) {
        const auto known = std::find_if(result.scores.begin(), result.scores.end(),
                                        [&](const Score& other) { return is_same(score, other); });
        score_numbers.push_back(static_cast<std::size_t>(known - result.scores.begin()));
        if (known == result.scores.end()) result.scores.push_back(score);
    }
    std::vector<std::size_t> sum_numbers;
    for (const ScoredSum& sum : second.sums) {
        sum_numbers.push_back(result.sums.size());
        result.sums.push_back({renumbered(sum.weight, score_numbers), sum.factor});
    }
    for (Store store : second.stores) {
        store.expr = renumbered(store.expr, sum_numbers);
        result.stores.push_back(std::move(store));
    }
    if (!cut_scored(result, machine)) return std::nullopt;
    return result;
}

class Joiner {
public:
    Joiner(RegionGraph& graph, const Machine& machine) : graph_(graph), machine_(machine) {}

    void run() {
        while (join_two()) {
        }
        remove_empty(graph_);
    }

private:
    bool join_two() {
        const Touches touches(graph_);
        std::vector<std::size_t> earlier;
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            const auto* region = std::get_if<ScoredRegion>(&graph_.regions[r].body);
            if (region == nullptr || !can_join(*region)) continue;
            for (const std::size_t other : earlier) {
                if (try_join(other, r, touches)) return true;
            }
            earlier.push_back(r);
        }
        return false;
    }

    bool try_join(std::size_t first, std::size_t second, const Touches& touches) {
        const auto& a = std::get<ScoredRegion>(graph_.regions[first].body);
        const auto& b = std::get<ScoredRegion>(graph_.regions[second].body);
        if (a.space != b.space || !share_a_score(a, b) || has_indirect_stores(a) || has_indirect_stores(b) ||
            touches.conflict(first, second) || touches.buffers_of_both(first, second) > abi::kMaxOperands)
            return false;
        const auto behind = regions_behind(first, second, touches);
        if (!behind) return false;
        auto region = joined(a, b, machine_);
        if (!region) return false;
        put_together(graph_, first, second, std::move(*region), *behind);
        return true;
    }

    RegionGraph& graph_;
    const Machine& machine_;
};

}  // namespace

void join_scored(RegionGraph& graph, const Machine& machine) { Joiner(graph, machine).run(); }

}  // namespace stretto
