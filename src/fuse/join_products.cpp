#include "fuse/join_products.h"

#include <algorithm>

#include "abi/abi.h"
#include "fuse/joined_stores.h"
#include "fuse/product_tile.h"
#include "fuse/touches.h"

namespace stretto {
namespace {

constexpr std::size_t kDepth = 3;  ///< dimension of k

/// Elements of an access by number of the position, in row-major order.
std::optional<IndexMap> in_order(const Access& access, std::int64_t positions) {
    auto flat = reshaped(access.map, {positions});
    if (flat) flat = normalized(*flat);
    return flat;
}

/// Accesses over the positions of a map, as over (b, m, n) of a product of as many results.
class Positions {
public:
    explicit Positions(const std::array<std::int64_t, 4>& space) : space_(space) {}

    [[nodiscard]] std::int64_t count() const { return space_[0] * space_[1] * space_[2]; }

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

    /// The elements of a product's store, in the order of the positions.
    [[nodiscard]] std::optional<IndexMap> of_result(const Access& access) const {
        Access result = access;
        result.map.dims.erase(result.map.dims.begin() + kDepth);
        return in_order(result, count());
    }

private:
    [[nodiscard]] bool moved(Access& access) const {
        auto map = reshaped(access.map, {space_[0], space_[1], space_[2]});
        if (!map) return false;
        map->dims.push_back({atom(space_[3], 0)});
        access.map = std::move(*map);
        return true;
    }

    const std::array<std::int64_t, 4>& space_;
};

class Joiner {
public:
    explicit Joiner(RegionGraph& graph) : graph_(graph), touches_(graph) {}

    void run() {
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            if (!std::holds_alternative<MapRegion>(graph_.regions[r].body)) continue;
            // The last to write something that the map reads: nothing may come between them.
            const auto product = touches_.last_conflict(r);
            if (product && is_product(*product)) {
                join(*product, r, *product);
                continue;
            }
            for (const auto& [buffer, touch] : touches_.of(r)) {
                const auto writer = touches_.last_writer(buffer, r);
                if (!writer || !is_product(*writer) || touches_.first_conflict(*writer) != r) continue;
                if (join(*writer, r, r)) break;
            }
        }
    }

private:
    [[nodiscard]] bool is_product(std::size_t region) const {
        const auto* product = std::get_if<MatMulRegion>(&graph_.regions[region].body);
        return product != nullptr && has_many_rows(product->space, product->a_type) && product->stats.empty();
    }

    /// Do the two meet element for element wherever one of them writes what the other touches?
    [[nodiscard]] bool fit(std::size_t product, std::size_t map, const Positions& positions) const {
        bool share = false;
        for (const auto& [buffer, touch] : touches_.of(map)) {
            const auto found = touches_.of(product).find(buffer);
            if (found == touches_.of(product).end()) continue;
            const Touch& other = found->second;
            if (!touch.writes && !other.writes) continue;
            if ((touch.writes && other.writes) || !touch.access || !other.access) return false;
            if (!is_injective(*touch.access)) return false;
            const auto elements = in_order(*touch.access, positions.count());
            if (!elements || elements != positions.of_result(*other.access)) return false;
            share = true;
        }
        return share && touches_.buffers_of_both(product, map) <= abi::kMaxOperands;
    }

    /// The joined region stands at `place`, one of the two.
    bool join(std::size_t first, std::size_t second, std::size_t place) {
        const MatMulRegion& product = std::get<MatMulRegion>(graph_.regions[first].body);
        const MapRegion& map = std::get<MapRegion>(graph_.regions[second].body);
        const Positions positions(product.space);
        if (volume(map.space) != positions.count() || !fit(first, second, positions)) return false;
        const auto moved = positions.stores(map.stores);
        if (!moved) return false;
        auto stores = joined_stores(product.stores, *moved,
                                    [&](std::int32_t buffer) { return touches_.is_for(buffer, second); });
        if (!stores) return false;
        Region joined{graph_.regions[first].name, product};
        std::get<MatMulRegion>(joined.body).stores = std::move(*stores);
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
