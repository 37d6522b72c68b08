#include "backends/runs.h"

#include <algorithm>

#include "fuse/product_tile.h"

namespace stretto {
namespace {

/// On a device, products in tiles are planned for some counts of warps only.
bool fits(const RegionGraph& graph, const Machine& machine) {
    return machine.arch == "cpu" ||
           std::all_of(graph.regions.begin(), graph.regions.end(), [&](const Region& region) {
               const auto* matmul = std::get_if<MatMulRegion>(&region.body);
               return matmul == nullptr || matmul->tile.rows == 0 ||
                      can_share_tile(machine.consumer_warps, matmul->a_type);
           });
}

}  // namespace

std::vector<Run> runs_of(const std::vector<Case>& cases, const std::vector<Backend>& backends) {
    std::vector<Run> runs;
    for (const Case& test : cases) {
        for (const Backend& backend : backends) {
            if (fits(test.graph, backend.machine)) runs.emplace_back(test, backend);
        }
    }
    return runs;
}

std::string run_name(const testing::TestParamInfo<Run>& run) {
    return std::get<0>(run.param).name + "_on_" + std::get<1>(run.param).name;
}

}  // namespace stretto
