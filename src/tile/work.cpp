#include "tile/work.h"

#include <algorithm>
#include <variant>

#include "fuse/passes.h"
#include "fuse/product_kind.h"
#include "fuse/scored.h"
#include "fuse/scored_weights.h"

namespace stretto {
namespace {

template <class... Visitors>
struct Overload : Visitors... {
    using Visitors::operator()...;
};

double nodes_of(const std::vector<Store>& stores) {
    double nodes = 0;
    for (const Store& store : stores) nodes += static_cast<double>(store.expr.nodes.size());
    return nodes;
}

double nodes_of(const ReduceRegion& reduce) {
    double nodes = nodes_of(reduce.element_stores);
    for (const Pass& pass : passes_of(reduce)) nodes += static_cast<double>(pass.expr.nodes.size());
    return nodes;
}

double nodes_per_point(const RegionBody& body) {
    return std::visit(Overload{[](const MapRegion& map) { return nodes_of(map.stores); },
                               [](const ReduceRegion& reduce) { return nodes_of(reduce); },
                               [](const MatMulRegion& matmul) {
                                   auto nodes = static_cast<double>(matmul.a.nodes.size());
                                   for (const RowStat& stat : matmul.stats)
                                       nodes += static_cast<double>(stat.term.nodes.size());
                                   return nodes;
                               },
                               [](const AttentionRegion& attention) {
                                   return static_cast<double>(attention.mask.nodes.size());
                               },
                               [](const ScoredRegion& scored) {
                                   return static_cast<double>(quick_weights(scored, true).expr.nodes.size());
                               }},
                      body);
}

struct Points {
    double operations = 0;
    double tensor_operations = 0;
    double touched = 0;  ///< elements of one operand that the task can reach at most
};

double size(Range range) { return static_cast<double>(std::max<std::int64_t>(range.size(), 0)); }

Points points(const MapRegion&, const Task& task, double nodes) {
    const double count = size(task.tile[0]);
    return {count * nodes, 0, count};
}

Points points(const ReduceRegion& reduce, const Task& task, double nodes) {
    double count = size(task.tile[0]);
    const auto first = static_cast<std::size_t>(reduce.kept);
    for (std::size_t d = first; d < reduce.space.size(); ++d) {
        const bool ragged = d == first && reduce.ragged;
        count *= static_cast<double>(ragged ? reduce.ragged->expected : reduce.space[d]);
    }
    return {count * nodes, 0, count};
}

Points points(const MatMulRegion& matmul, const Task& task, double nodes) {
    const auto k = static_cast<double>(matmul.ragged ? matmul.ragged->expected : matmul.space[3]);
    const double rows = size(task.tile[0]) * size(task.tile[1]);
    // The rows of a task of panels, eight at most, are multiplied by the same instructions.
    const bool panels = product_kind(matmul) == abi::ProductKind::Panels;
    const double products = (panels ? std::min(rows, 1.0) : rows) * size(task.tile[2]) * k *
                            static_cast<double>(matmul.weights.size());
    const double touched = std::max(rows, size(task.tile[0]) * size(task.tile[2])) * k;
    const bool tensor = product_kind(matmul) == abi::ProductKind::Tiles && size_of(matmul.a_type) == 2;
    if (tensor) return {0, 2 * products, touched};
    return {2 * products + rows * k * nodes, 0, touched};
}

Points points(const AttentionRegion& attention, const Task& task, double nodes) {
    const double rows = static_cast<double>(attention.space[3]) / static_cast<double>(attention.splits);
    const auto width = static_cast<double>(attention.space[4]);
    const double queries =
        size(task.tile[0]) * size(task.tile[1]) * size(task.tile[2]) * static_cast<double>(attention.group);
    return {queries * rows * (4 * width + nodes), 0, size(task.tile[0]) * size(task.tile[1]) * rows * width};
}

Points points(const ScoredRegion& scored, const Task& task, double nodes) {
    const double context = size(scored_context(scored, task.tile[1]));
    const double rows = size(task.tile[0]) * size(task.tile[1]);
    const auto depth = static_cast<double>(scored.space[4]) * static_cast<double>(scored.scores.size());
    const bool mixes = scored.sums.front().factor.has_value();
    const auto width =
        static_cast<double>(mixes ? scored.space[2] : 0) * static_cast<double>(scored.sums.size());
    const double touched =
        std::max(rows, context) * static_cast<double>(std::max(scored.space[2], scored.space[4]));
    return {rows * context * nodes, 2 * rows * context * (depth + width), touched};
}

bool is_streamed(const RegionBody& body, BufferId buffer) {
    const MatMulRegion* matmul = streamed_product(body);
    return matmul != nullptr &&
           std::any_of(matmul->weights.begin(), matmul->weights.end(),
                       [&](const Access& weight) { return weight.source == buffer.value; });
}

}  // namespace

WorkEstimate::WorkEstimate(const TaskGraph& graph) : graph_(graph) {
    for (const Region& region : graph.regions.regions) nodes_.push_back(nodes_per_point(region.body));
}

Work WorkEstimate::of(TaskId id) const {
    const Task& task = graph_[id];
    const RegionBody& body = graph_.regions[task.region].body;
    const Points reached =
        std::visit([&](const auto& kind) { return points(kind, task, nodes_[task.region.index()]); }, body);
    Work work{reached.operations, reached.tensor_operations, 0};
    for (const Footprint& read : task.reads) {
        if (is_streamed(body, read.buffer)) continue;
        // A data-dependent read names a whole table and touches few rows of it.
        const double elements = std::min(static_cast<double>(volume(read.box)), reached.touched);
        work.direct_bytes += elements * static_cast<double>(size_of(graph_.regions[read.buffer].dtype));
    }
    return work;
}

}  // namespace stretto
