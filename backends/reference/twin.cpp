#include "backends/reference/twin.h"

namespace stretto {

Twins::Twins(const RegionGraph& regions, std::int32_t consumer_warps) {
    struct Make {
        const RegionGraph& graph;
        std::int32_t warps;
        std::unique_ptr<Twin> operator()(const MapRegion& region) const { return make_twin(region); }
        std::unique_ptr<Twin> operator()(const ScoredRegion& region) const { return make_twin(region); }
        std::unique_ptr<Twin> operator()(const ReduceRegion& region) const {
            return make_twin(region, warps);
        }
        std::unique_ptr<Twin> operator()(const MatMulRegion& region) const {
            return make_twin(graph, region, warps);
        }
        std::unique_ptr<Twin> operator()(const AttentionRegion& region) const {
            return make_twin(region, warps);
        }
    };
    for (const Region& region : regions.regions)
        twins_.push_back(std::visit(Make{regions, consumer_warps}, region.body));
}

}  // namespace stretto
