#include "fuse/join_products.h"

#include <algorithm>

#include "abi/abi.h"
#include "fuse/joined_stores.h"
#include "fuse/product_tile.h"
#include "fuse/reduce_lanes.h"
#include "fuse/touches.h"

namespace stretto {
namespace {

/// Elements of an access by number of the position, in row-major order.
std::optional<IndexMap> in_order(const Access& access, std::int64_t positions) {
    auto flat = reshaped(access.map, {positions});
    if (flat) flat = normalized(*flat);
    return flat;
}

/// Accesses over the positions of a map, as over the results of a product or a reduction of as many: its first dimensions.
class Positions {
public:
    explicit Positions(const MatMulRegion& product)
        : results_(product.space.begin(), product.space.end() - 1), summed_{product.space.back()} {}
    explicit Positions(const ReduceRegion& reduce)
        : results_(reduce.space.begin(), reduce.space.begin() + reduce.kept),
          summed_(reduce.space.begin() + reduce.kept, reduce.space.end()) {}

    [[nodiscard]] std::int64_t count() const { return volume(results_); }

    /// Nothing where the stores depend on data or on coordinates, or where no list of digits expresses an access.
    [[nodiscard]] std::optional<std::vector<Store>> stores(std::vector<Store> list) const {
        for (Store& store : list) {
            const auto& nodes = store.expr.nodes;
            const bool by_coordinate = std::any_of(nodes.begin(), nodes.end(), [](const ExprNode& node) {
                return node.op == Op::Index || (node.op == Op::Load && !node.args.empty());
            });
            if (by_coordinate || !store.indices.empty() || !moved(store.target)) return std::nullopt;
            for (Access& access : store.expr.accesses) {
                if (!moved(access)) return std::nullopt;
            }
        }
        return list;
    }

    /// The elements of a store of results, in the order of the positions.
    [[nodiscard]] std::optional<IndexMap> of_result(const Access& access) const {
        Access result = access;
        result.map.dims.resize(results_.size());
        return in_order(result, count());
    }

private:
    [[nodiscard]] bool moved(Access& access) const {
        auto map = reshaped(access.map, results_);
        if (!map) return false;
        for (const std::int64_t extent : summed_) map->dims.push_back({atom(extent, 0)});
        access.map = std::move(*map);
        return true;
    }

    Shape results_;
    Shape summed_;
};

/// The region's results by position, where element-wise regions join it.
std::optional<Positions> positions_of(const RegionBody& body) {
    if (const auto* product = std::get_if<MatMulRegion>(&body)) {
        if (has_many_rows(product->space, product->a_type) && product->stats.empty())
            return Positions(*product);
    }
    if (const auto* reduce = std::get_if<ReduceRegion>(&body)) {
        if (reduce_lanes(*reduce).way == ReduceLanes::Way::Columns && reduce->element_stores.empty())
            return Positions(*reduce);
    }
    return std::nullopt;
}

std::vector<Store>& stores_of(RegionBody& body) {
    if (auto* product = std::get_if<MatMulRegion>(&body)) return product->stores;
    return std::get<ReduceRegion>(body).stores;
}

class Joiner {
public:
    explicit Joiner(RegionGraph& graph) : graph_(graph), touches_(graph) {}

    void run() {
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            if (!std::holds_alternative<MapRegion>(graph_.regions[r].body)) continue;
            // The last to write something that the map reads: nothing may come between them.
            const auto before = touches_.last_conflict(r);
            if (before && gives_results(*before)) {
                join(*before, r, *before);
                continue;
            }
            for (const auto& [buffer, touch] : touches_.of(r)) {
                const auto writer = touches_.last_writer(buffer, r);
                if (!writer || !gives_results(*writer) || touches_.first_conflict(*writer) != r) continue;
                if (join(*writer, r, r)) break;
            }
        }
    }

private:
    [[nodiscard]] bool gives_results(std::size_t region) const {
        return positions_of(graph_.regions[region].body).has_value();
    }

    /// Do the two meet element for element wherever one of them writes what the other touches?
    [[nodiscard]] bool fit(std::size_t first, std::size_t map, const Positions& positions) const {
        bool share = false;
        for (const auto& [buffer, touch] : touches_.of(map)) {
            const auto found = touches_.of(first).find(buffer);
            if (found == touches_.of(first).end()) continue;
            const Touch& other = found->second;
            if (!touch.writes && !other.writes) continue;
            if ((touch.writes && other.writes) || !touch.access || !other.access) return false;
            if (!is_injective(*touch.access)) return false;
            const auto elements = in_order(*touch.access, positions.count());
            if (!elements || elements != positions.of_result(*other.access)) return false;
            share = true;
        }
        return share && touches_.buffers_of_both(first, map) <= abi::kMaxOperands;
    }

    /// The joined region stands at `place`, one of the two.
    bool join(std::size_t first, std::size_t second, std::size_t place) {
        const MapRegion& map = std::get<MapRegion>(graph_.regions[second].body);
        const Positions positions = *positions_of(graph_.regions[first].body);
        if (volume(map.space) != positions.count() || !fit(first, second, positions)) return false;
        const auto moved = positions.stores(map.stores);
        if (!moved) return false;
        auto stores = joined_stores(stores_of(graph_.regions[first].body), *moved,
                                    [&](std::int32_t buffer) { return touches_.is_for(buffer, second); });
        if (!stores) return false;
        Region joined = graph_.regions[first];
        stores_of(joined.body) = std::move(*stores);
        for (const std::size_t r : {first, second}) graph_.regions[r].body = MapRegion{};
        graph_.regions[place] = std::move(joined);
        touches_.update(first);
        touches_.update(second);
        return true;
    }

    RegionGraph& graph_;
    Touches touches_;
};

}  // namespace

void join_products(RegionGraph& graph) {
    Joiner(graph).run();
    remove_empty(graph);
}

}  // namespace stretto
