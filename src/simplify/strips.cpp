#include "simplify/strips.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/division.h"
#include "simplify/live.h"
#include "simplify/strip_expr.h"
#include "simplify/strip_uses.h"
#include "simplify/strip_writer.h"

namespace stretto {
namespace {

constexpr std::int64_t kStripBytes = 32 << 20;
constexpr std::int64_t kMostStrips = 8;  ///< each has task kinds of its own, which take time to compile
constexpr std::int64_t kColumns = 64;    ///< strips have a multiple of so many
/// Results that are much longer than the sums behind them: computing those again is the lesser part of an update.
constexpr std::int64_t kLongRows = 4;

/// About how long all workers take for a strip's tiles, in columns of a tile: tiles are of 128 rows and of 64 to 256 columns.
std::int64_t strip_time(std::int64_t rows, std::int64_t width, std::int64_t workers) {
    constexpr std::int64_t kTileRows = 128, kLeast = 64, kMost = 256;
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t columns = kLeast; columns <= kMost; columns += kLeast) {
        const std::int64_t tiles = ceil_div(rows, kTileRows) * ceil_div(width, columns);
        best = std::min(best, ceil_div(tiles, workers) * columns);
    }
    return best;
}

/// The columns of a strip: those for which workers wait the least for one another, of widths that are not much more than a
/// share of the columns.
std::int64_t strip_width(const Node& product, std::int64_t strips, std::int64_t workers) {
    const std::int64_t columns = product.type.shape.back();
    const std::int64_t results = volume(product.type.shape);
    if (strips == 0) {
        const auto bytes = results * static_cast<std::int64_t>(size_of(product.type.dtype));
        strips = std::min(ceil_div(bytes, kStripBytes), kMostStrips);
    }
    if (strips < 2) return columns;
    const std::int64_t rows = results / columns;
    const std::int64_t least = ceil_div(ceil_div(columns, strips), kColumns) * kColumns;
    std::int64_t best = least;
    for (std::int64_t width = least; width <= least + least / 8; width += kColumns) {
        if (strip_time(rows, width, workers) * best < strip_time(rows, best, workers) * width) best = width;
    }
    return std::min(columns, best);
}

std::optional<StripUses> longest_rows(const Graph& graph) {
    std::optional<StripUses> best;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const auto* op = std::get_if<Contract>(&graph.nodes[i].op);
        const Shape& shape = graph.nodes[i].type.shape;
        if (op == nullptr || op->ragged || op->space[2] < kLongRows * op->space[3] || shape.empty() ||
            shape.back() != op->space[2])
            continue;
        if (best && volume(shape) <= volume(graph[best->product].type.shape)) continue;
        if (auto uses = strip_uses(graph, ValueId(static_cast<std::int64_t>(i)))) best = std::move(uses);
    }
    return best;
}

}  // namespace

Graph in_strips(const Graph& graph, std::int64_t strips, std::int64_t workers) {
    const auto uses = strips == 1 ? std::nullopt : longest_rows(graph);
    if (!uses) return graph;
    const Node& product = graph[uses->product];
    const std::int64_t width = strip_width(product, strips, workers);
    if (width == product.type.shape.back()) return graph;
    try {
        Graph result = without_dead_values(with_strips(graph, *uses, width));
        check(result);
        return result;
    } catch (const Uncut&) {
        return graph;
    }
}

}  // namespace stretto
