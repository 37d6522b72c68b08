#include "fuse/left_shares.h"

#include <algorithm>
#include <limits>

#include "abi/abi.h"
#include "fuse/product_kind.h"
#include "graph/index_groups.h"

namespace stretto {
namespace {

constexpr std::size_t kDepth = 3;               ///< dimension k of a product's space
constexpr std::int64_t kMostBytes = 16;         ///< of one access
constexpr std::int64_t kMostRows = 8;           ///< rows that are staged at one time
constexpr std::int64_t kMostNeighbours = 8;     ///< 16 bytes of the narrowest elements
constexpr std::int64_t kMostStaged = 64 << 10;  ///< bytes of a left side that is staged as a whole
constexpr std::int64_t kStagedPart = 32 << 10;  ///< bytes of a part of a larger one

std::int64_t rows_together(const MatMulRegion& region) {
    return std::clamp<std::int64_t>(region.space[1], 1, kMostRows);
}

std::vector<const Access*> direct_loads(const Expr& expr) {
    std::vector<const Access*> loads;
    for (const ExprNode& node : expr.nodes) {
        if (node.op == Op::Load && node.args.empty())
            loads.push_back(&expr.accesses.at(static_cast<std::size_t>(node.integer)));
    }
    return loads;
}

/// Does everything that the left side loads lie together in groups of `width`, or not move within one? Lanes whose accesses
/// of words are apart would have each of them moved twice.
bool moves_together(const RegionGraph& graph, const MatMulRegion& region, std::int64_t width) {
    if (region.space[kDepth] % width != 0) return false;
    std::vector<const Access*> loads = direct_loads(region.a);
    for (const RowStat& stat : region.stats) {
        for (const Access* load : direct_loads(stat.term)) loads.push_back(load);
    }
    bool gains = false;
    for (const Access* load : loads) {
        const bool together = lies_in_groups(load->map, kDepth, width);
        if (!together && moves_within_groups(load->map, kDepth, width)) return false;
        const Buffer& buffer = graph[BufferId(load->source)];
        const bool one_access = width * buffer.element_bytes() <= kMostBytes;
        if (together && buffer.tagged && (!one_access || load->map.masked())) return false;
        gains |= together && one_access;
    }
    return gains;
}

}  // namespace

LeftShares left_shares(const RegionGraph& graph, const MatMulRegion& region, std::int64_t warps) {
    LeftShares shares;
    shares.row_warps = warps / std::min(warps, rows_together(region));
    shares.depth = staged_depth(region, warps);
    const std::int64_t threads = shares.row_warps * 32;
    // A group costs a thread about as much as one element more.
    const auto cost = [&](std::int64_t width) {
        const std::int64_t groups = shares.depth / width;
        return (groups + threads - 1) / threads * (width + 1);
    };
    for (std::int64_t width = 2; width <= kMostNeighbours; width *= 2) {
        if (moves_together(graph, region, width) && cost(width) < cost(shares.width)) shares.width = width;
    }
    return shares;
}

/// Whole pieces of a panel, so that a load belongs to one part. Sums of statistics stay with a thread over all parts, so
/// each has one row.
std::int64_t staged_depth(const MatMulRegion& region, std::int64_t warps) {
    const std::int64_t depth = region.space[kDepth];
    const std::int64_t column = rows_together(region) * static_cast<std::int64_t>(size_of(region.a_type));
    if (product_kind(region) != abi::ProductKind::Panels || column * depth <= kMostStaged ||
        rows_together(region) > warps)
        return depth;
    const std::int64_t piece = abi::panel_piece(depth, warps);
    return std::min(depth, std::max<std::int64_t>(kStagedPart / (column * piece), 1) * piece);
}

std::int64_t most_panels(const MatMulRegion& region, std::int64_t warps) {
    if (staged_depth(region, warps) == region.space[kDepth]) return std::numeric_limits<std::int64_t>::max();
    return abi::panels_at_once(rows_together(region), static_cast<long long>(region.weights.size()), warps);
}

}  // namespace stretto
