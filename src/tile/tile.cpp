#include "tile/tile.h"

#include <algorithm>

#include "abi/abi.h"
#include "base/division.h"
#include "base/error.h"
#include "base/warp.h"
#include "fuse/left_shares.h"
#include "fuse/narrow_product.h"
#include "fuse/product_kind.h"
#include "fuse/reduce_lanes.h"
#include "fuse/scored.h"
#include "tile/dependencies.h"
#include "tile/footprints.h"

namespace stretto {
namespace {

constexpr std::int64_t kMaxTokens = 8;             ///< rows of m that a MatMul task computes together
constexpr std::int64_t kMaxAccumulators = 8192;    ///< of one MatMul task
constexpr std::int64_t kQueryRows = 8;             ///< of one attention task
constexpr std::int64_t kLeastWideElements = 4096;  ///< of the weights that a task reads 16 bytes at a time
constexpr std::int64_t kStripBytes = 16 << 20;     ///< a good part of a large GPU's L2

using abi::round_up;

class Tiler {
public:
    Tiler(RegionGraph regions, const Machine& machine, const PlanOptions& options)
        : machine_(machine), options_(options) {
        graph_.regions = std::move(regions);
    }

    TaskGraph run() {
        for (std::size_t r = 0; r < graph_.regions.regions.size(); ++r) {
            const auto first = static_cast<std::int64_t>(graph_.tasks.size());
            std::visit([&](const auto& body) { cut(r, body); }, graph_.regions.regions[r].body);
            graph_.tasks_of.push_back({first, static_cast<std::int64_t>(graph_.tasks.size())});
        }
        find_dependencies(graph_);
        return std::move(graph_);
    }

private:
    void add(std::size_t region, const std::array<Range, 4>& tile) {
        Footprints touched = footprints(graph_.regions, graph_.regions.regions[region], tile);
        graph_.tasks.push_back({RegionId(static_cast<std::int64_t>(region)),
                                tile,
                                std::move(touched.reads),
                                std::move(touched.writes),
                                {}});
    }

    void cut_linear(std::size_t region, std::int64_t total, std::int64_t piece) {
        for (std::int64_t begin = 0; begin < total; begin += piece) {
            add(region, {Range{begin, std::min(begin + piece, total)}, {}, {}, {}});
        }
    }

    void cut(std::size_t region, const MapRegion& map) {
        const std::int64_t total = volume(map.space);
        const std::int64_t threads = machine_.consumer_warps * kLanesOfWarp;
        const std::int64_t share = round_up(ceil_div(total, machine_.workers), kLanesOfWarp);
        // Fewer positions than threads would only spread the hand-off over more signals.
        cut_linear(region, total, round_up(std::max(share, threads), unit_of(map.stores, map.space)));
    }

    void cut(std::size_t region, const ReduceRegion& reduce) {
        const Shape outer(reduce.space.begin(), reduce.space.begin() + reduce.kept);
        const std::int64_t total = volume(outer);
        const std::int64_t together = results_at_once(reduce, machine_.consumer_warps);
        const std::int64_t share =
            round_up(std::max<std::int64_t>(ceil_div(total, machine_.workers), together), together);
        cut_linear(region, total, round_up(share, unit_of(reduce.stores, outer)));
    }

    /// Row-major positions that one task must keep together: a data-dependent store may write the same bytes for
    /// two coordinates, so all coordinates that its place depends on belong to one task.
    static std::int64_t unit_of(const std::vector<Store>& stores, const Shape& space) {
        std::int64_t unit = 1;
        for (const Store& store : stores) {
            for (std::int32_t index : store.indices) {
                std::size_t d = 0;
                while (d < space.size() && (space[d] == 1 || !depends_on(store.expr, index, d))) ++d;
                std::int64_t inner = 1;
                for (; d < space.size(); ++d) inner *= space[d];
                unit = std::max(unit, inner);
            }
        }
        return unit;
    }

    void cut(std::size_t region, const MatMulRegion& matmul) {
        if (product_kind(matmul) == abi::ProductKind::Tiles) return cut_tiles(region, matmul);
        const auto [batch, m, n, k] = matmul.space;
        const std::int64_t tokens = tokens_per_task(region, matmul);
        const std::vector<Range> columns = product_kind(matmul) == abi::ProductKind::Panels
                                               ? whole_panels(matmul, tokens)
                                               : even_columns(matmul, tokens);
        for (std::int64_t b = 0; b < batch; ++b) {
            for (std::int64_t i = 0; i < m; i += tokens) {
                for (const Range range : columns) {
                    add(region, {Range{b, b + 1}, {i, std::min(i + tokens, m)}, range, {}});
                }
            }
        }
    }

    /// By strips of columns whose weights stay in the shared cache while all rows pass, then by row.
    void cut_tiles(std::size_t region, const MatMulRegion& matmul) {
        const auto [batch, m, n, k] = matmul.space;
        const std::int64_t column_bytes =
            row_cost(matmul) * static_cast<std::int64_t>(size_of(matmul.a_type));
        const std::int64_t rows = matmul.tile.rows;
        const std::int64_t columns = matmul.tile.columns;
        const std::int64_t strip =
            std::max<std::int64_t>(kStripBytes / (column_bytes * columns), 1) * columns;
        for (std::int64_t b = 0; b < batch; ++b) {
            for (std::int64_t first = 0; first < n; first += strip) {
                for (std::int64_t i = 0; i < m; i += rows) {
                    for (std::int64_t j = first; j < std::min(first + strip, n); j += columns) {
                        add(region,
                            {Range{b, b + 1}, {i, std::min(i + rows, m)}, {j, std::min(j + columns, n)}, {}});
                    }
                }
            }
        }
    }

    /// The region's share of all workers, each with as many panels as the others or one more.
    [[nodiscard]] std::vector<Range> whole_panels(const MatMulRegion& matmul, std::int64_t tokens) const {
        const std::int64_t panels = ceil_div(matmul.space[2], abi::kPanelRows);
        const std::int64_t share =
            machine_.workers * streamed_cost(matmul, tokens) / siblings_cost(matmul, tokens);
        const std::int64_t least =
            ceil_div(panels, std::min(panels, most_panels(matmul, machine_.consumer_warps)));
        const std::int64_t most = std::max(panels / options_.task_panels, least);
        const std::int64_t tasks = std::clamp(share / ceil_div(matmul.space[1], tokens), least, most);
        std::vector<Range> columns;
        for (std::int64_t t = 0; t < tasks; ++t) {
            columns.push_back({panels * t / tasks * abi::kPanelRows,
                               std::min(panels * (t + 1) / tasks * abi::kPanelRows, matmul.space[2])});
        }
        return columns;
    }

    [[nodiscard]] std::vector<Range> even_columns(const MatMulRegion& matmul, std::int64_t tokens) const {
        const std::int64_t step = columns_per_task(matmul, tokens);
        std::vector<Range> columns;
        for (std::int64_t j = 0; j < matmul.space[2]; j += step) {
            columns.push_back({j, std::min(j + step, matmul.space[2])});
        }
        return columns;
    }

    /// As many rows of m as fit beside the ring, which keeps a third of the shared memory: a shorter ring costs less than
    /// weights that are read once more.
    [[nodiscard]] std::int64_t tokens_per_task(std::size_t region, const MatMulRegion& matmul) const {
        std::int64_t tokens = std::min(matmul.space[1], kMaxTokens);
        const auto fits = [&](std::int64_t count) {
            const std::array<Range, 4> tile{Range{0, 1}, {0, count}, {0, 1}, {}};
            const Region& r = graph_.regions.regions[region];
            return scratch_bytes(r, tile, machine_.consumer_warps) <= machine_.shared_bytes / 3 * 2;
        };
        while (tokens > 1 && !fits(tokens)) --tokens;
        ensure(fits(tokens), "a row of a contraction does not fit in shared memory");
        return tokens;
    }

    /// Elements of one row of all weights.
    [[nodiscard]] static std::int64_t row_cost(const MatMulRegion& matmul) {
        return static_cast<std::int64_t>(matmul.weights.size()) * matmul.space[3];
    }

    /// Elements of weights that all tasks of a region read.
    [[nodiscard]] static std::int64_t streamed_cost(const MatMulRegion& matmul, std::int64_t tokens) {
        return matmul.space[0] * ceil_div(matmul.space[1], tokens) * matmul.space[2] * row_cost(matmul);
    }

    /// Contractions over the same left side run side by side: together they get one task for each worker.
    [[nodiscard]] std::int64_t siblings_cost(const MatMulRegion& matmul, std::int64_t tokens) const {
        std::int64_t cost = 0;
        for (const Region& other : graph_.regions.regions) {
            const auto* sibling = std::get_if<MatMulRegion>(&other.body);
            if (sibling != nullptr && sibling->a == matmul.a && sibling->stats == matmul.stats &&
                sibling->space[1] == matmul.space[1]) {
                cost += streamed_cost(*sibling, tokens);
            }
        }
        return cost;
    }

    [[nodiscard]] std::int64_t columns_per_task(const MatMulRegion& matmul, std::int64_t tokens) const {
        if (matmul.tile.columns > 0) return matmul.tile.columns;
        const std::int64_t cost = siblings_cost(matmul, tokens);
        const bool wide = wide_weights(matmul).has_value();
        std::int64_t columns = ceil_div(ceil_div(cost, machine_.workers), row_cost(matmul));
        // Without the ring, neighbouring lanes read neighbouring columns.
        if (!matmul.streamed && !wide) columns = round_up(columns, kLanesOfWarp);
        if (wide) columns = std::max(columns, ceil_div(kLeastWideElements, row_cost(matmul)));
        const std::int64_t accumulators = tokens * static_cast<std::int64_t>(matmul.weights.size());
        const std::int64_t held = wide ? abi::kDirectChunk * machine_.consumer_warps : kMaxAccumulators;
        const std::int64_t most = std::max<std::int64_t>(held / accumulators, 1);
        const std::int64_t pieces = ceil_div(columns, most);
        return std::clamp<std::int64_t>(ceil_div(columns, pieces), 1, matmul.space[2]);
    }

    void cut(std::size_t region, const AttentionRegion& attention) {
        const auto& s = attention.space;
        const std::int64_t queries =
            std::clamp<std::int64_t>(kQueryRows / attention.group, 1, std::max<std::int64_t>(s[2], 1));
        for (std::int64_t b = 0; b < s[0]; ++b) {
            for (std::int64_t head = 0; head < s[1] / attention.group; ++head) {
                for (std::int64_t q = 0; q < s[2]; q += queries) {
                    for (std::int64_t split = 0; split < attention.splits; ++split) {
                        add(region, {Range{b, b + 1},
                                     {head, head + 1},
                                     {q, std::min(q + queries, s[2])},
                                     {split, split + 1}});
                    }
                }
            }
        }
    }

    /// Rows with much context first: the others fill up what is left of the workers' time.
    void cut(std::size_t region, const ScoredRegion& scored) {
        const std::int64_t step = scored.tile.rows;
        std::vector<Range> blocks;
        for (std::int64_t r = 0; r < scored.space[1]; r += step)
            blocks.push_back({r, std::min(r + step, scored.space[1])});
        std::stable_sort(blocks.begin(), blocks.end(), [&](Range a, Range b) {
            return scored_context(scored, a).size() > scored_context(scored, b).size();
        });
        for (const Range rows : blocks) {
            for (std::int64_t b = 0; b < scored.space[0]; ++b) add(region, {Range{b, b + 1}, rows, {}, {}});
        }
    }

    const Machine& machine_;
    const PlanOptions& options_;
    TaskGraph graph_;
};

}  // namespace

std::int64_t scratch_bytes(const Region& region, const std::array<Range, 4>& tile, std::int32_t warps) {
    if (const auto* matmul = std::get_if<MatMulRegion>(&region.body)) {
        const auto weights = static_cast<long long>(matmul->weights.size());
        if (product_kind(*matmul) == abi::ProductKind::Tiles) {
            return abi::tiles_scratch(matmul->tile.rows, matmul->tile.columns, weights,
                                      matmul->tile.stages * row_lines(*matmul));
        }
        const bool wide = matmul->a_type == DType::F64;
        return abi::matmul_scratch({tile[1].size(), tile[2].size(), staged_depth(*matmul, warps),
                                    static_cast<long long>(size_of(matmul->a_type)), wide ? 8 : 4, weights,
                                    static_cast<long long>(matmul->stats.size()), product_kind(*matmul)},
                                   warps);
    }
    if (const auto* reduce = std::get_if<ReduceRegion>(&region.body)) {
        const ReduceLanes lanes = reduce_lanes(*reduce);
        constexpr std::int64_t kWidestSum = 8;
        if (lanes.way == ReduceLanes::Way::Columns)
            return abi::reduce_scratch(lanes.vector, kWidestSum, warps);
        const auto results = static_cast<std::int64_t>(reduce->reductions.size());
        return lanes.way == ReduceLanes::Way::Together ? warps * results * kWidestSum : 0;
    }
    if (const auto* attention = std::get_if<AttentionRegion>(&region.body)) {
        return abi::attention_scratch(attention->group * attention->space[2], attention->space[4], warps,
                                      on_tensor_cores(*attention));
    }
    if (const auto* scored = std::get_if<ScoredRegion>(&region.body))
        return abi::scored_scratch(scored_shape(*scored), warps);
    return 0;
}

TaskGraph tile(RegionGraph regions, const Machine& machine, const PlanOptions& options) {
    return Tiler(std::move(regions), machine, options).run();
}

}  // namespace stretto
