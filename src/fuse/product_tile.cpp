#include "fuse/product_tile.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "abi/abi.h"
#include "base/division.h"
#include "base/warp.h"
#include "fuse/narrow_product.h"
#include "fuse/product_kind.h"
#include "fuse/product_operand.h"
#include "fuse/product_split.h"
#include "fuse/ragged.h"

namespace stretto {
namespace {

constexpr std::int32_t kMostStages = 6;
constexpr std::int32_t kLeastStages =
    3;  ///< one being read, one being written, one that the slowest warp still reads
/// Sums of one thread, in registers: more would spill. Warp groups read operands from shared memory, other tensor-core
/// products from registers; a loader's warp takes registers from all.
constexpr std::int64_t kMostSums = 128;
constexpr std::int64_t kMostSumsBesideLoader = 96;
constexpr std::int64_t kMostPortableSums = 64;
/// A warp of a tile of F32 products has so many rows and columns, if the tile has.
constexpr std::int64_t kScalarSide = 32;
/// A block has so many groups of k for them to share.
constexpr std::int32_t kMostScalarWarps = 8;
/// Shared caches deliver more than memory.
constexpr double kCacheSpeed = 1.3;
/// What a task costs besides its product, in units of Machine::load_latency_us: filling the stages, storing the results.
/// Small tiles load what their results need beside the stages.
constexpr double kEnds = 6;
constexpr double kSmallEnds = 3;
/// A small tile has so many results at most: one group of neighbours for each thread.
constexpr std::int64_t kSmallTile = 1024;
/// Workers that a small exact product leaves free do something else: all of them are worth this share of its time.
constexpr double kWorthOfOthers = 0.6;
/// A part of k has whole blocks, and several of them.
constexpr std::int64_t kPartMultiple = 64;
constexpr std::int64_t kLeastPart = 192;
/// What a task of a product that reads its weights directly takes at least.
constexpr std::int64_t kDirectRows = 8;
constexpr std::int64_t kDirectColumns = 32;

/// How a product is cut: its tile, and the values of k in one part.
struct Cut {
    ProductTile tile;
    std::int64_t depth = 0;
    double time = 0;
};

class Chooser {
public:
    /// Where weights stream, half of the shared memory is the ring's.
    Chooser(const MatMulRegion& region, const Machine& machine, bool streams)
        : region_(region),
          machine_(machine),
          scalar_(region.a_type == DType::F32),
          bytes_((machine.shared_bytes - abi::kControlBytes) / (streams ? 2 : 1)),
          most_sums_(scalar_ || machine.arch != "sm_90a" ? kMostPortableSums
                     : streams                           ? kMostSumsBesideLoader
                                                         : kMostSums),
          depth_(region.ragged ? region.ragged->expected : region.space[3]),
          weights_(static_cast<std::int64_t>(region.weights.size())) {}

    /// The cut of least time in at most so many parts; without a tile where none fits.
    [[nodiscard]] Cut best(std::int64_t most_parts) const {
        Cut best;
        for (const std::int32_t rows : {16, 32, 64, 128}) {
            for (const std::int32_t columns : {8, 16, 32, 64, 128, 192, 256}) {
                const ProductTile tile{rows, columns, stages(rows, columns)};
                if (!(scalar_ ? fits_lanes(tile) : fits_tensor_cores(tile))) continue;
                if (tile.stages < kLeastStages || sums(tile) > most_sums_) continue;
                for (const std::int64_t parts : {1, 2, 3, 4, 6, 8, 12, 16}) {
                    const std::int64_t depth =
                        parts == 1 ? region_.space[3]
                                   : abi::round_up(ceil_div(region_.space[3], parts), kPartMultiple);
                    if (parts > most_parts || (parts > 1 && depth < kLeastPart)) break;
                    const double time = time_of(tile, depth);
                    // Of tiles as fast as each other, the one that reads less.
                    const std::int32_t sides = best.tile.rows + best.tile.columns;
                    const bool wins = time < best.time || (time == best.time && rows + columns < sides);
                    if (best.tile.rows == 0 || wins) best = {tile, depth, time};
                }
            }
        }
        return best;
    }

private:
    [[nodiscard]] std::int32_t stages(std::int32_t rows, std::int32_t columns) const {
        std::int32_t stages = kMostStages;
        const std::int64_t lines = most_row_lines(region_.a_type, rows + weights_ * columns);
        while (stages > 0 && abi::tiles_scratch(rows, columns, weights_, stages * lines) > bytes_) --stages;
        return stages;
    }

    [[nodiscard]] std::int64_t sums(const ProductTile& tile) const {
        const std::int64_t each = tile.rows * tile.columns / (machine_.consumer_warps * kLanesOfWarp);
        const std::int64_t side = std::min<std::int64_t>(tile.rows, kScalarSide) *
                                  std::min<std::int64_t>(tile.columns, kScalarSide);
        return std::max(each, scalar_ ? side / kLanesOfWarp : 1) * weights_;
    }

    /// As ScalarTile deals a tile to warps. The results of all warps are laid out where the stages were.
    [[nodiscard]] bool fits_lanes(const ProductTile& tile) const {
        const std::int64_t rows = std::min<std::int64_t>(tile.rows, kScalarSide);
        const std::int64_t down = tile.rows / rows;
        const std::int64_t warps = machine_.consumer_warps;
        if (down > warps) return false;
        const std::int64_t across =
            std::min(warps / down, std::max<std::int64_t>(tile.columns / kScalarSide, 1));
        if (warps % (down * across) != 0 || tile.columns % (across * 8) != 0) return false;
        const std::int64_t results = warps * rows * (tile.columns / across + 8) * weights_;
        return results * 4 <= tile.stages * (tile.rows + weights_ * tile.columns) * abi::kLineBytes;
    }

    [[nodiscard]] static bool fits_tensor_cores(const ProductTile& tile) {
        // Warp groups would share a panel of columns unevenly.
        const bool uneven = tile.rows == 64 && tile.columns == 192;
        return tile.rows >= 64 && tile.columns >= 64 && !uneven;
    }

    /// Whole tiles are computed, in rounds of one for each worker; the parts' results are stored, handed over, and read.
    [[nodiscard]] double time_of(const ProductTile& tile, std::int64_t depth) const {
        const auto [batch, m, n, whole] = region_.space;
        const std::int64_t k = depth_;
        const double parts = std::max(static_cast<double>(k) / static_cast<double>(depth), 1.0);
        const double tiles = static_cast<double>(batch * ceil_div(m, tile.rows) * ceil_div(n, tile.columns));
        const double columns = static_cast<double>(tile.columns * weights_);
        const double operations = 2 * tile.rows * columns;
        const double bytes = (tile.rows + columns) * static_cast<double>(size_of(region_.a_type));
        const double cache = kCacheSpeed * machine_.bandwidth;
        const double rate = scalar_ ? machine_.flops : machine_.tensor_flops;
        const double all = std::ceil(parts) * tiles;
        // The few workers of a small exact product have the shared cache for themselves.
        const double sharing = scalar_ ? std::min<double>(all, machine_.workers) : machine_.workers;
        const double each = std::max(operations / rate, bytes * sharing / cache);
        const bool small = scalar_ && tile.rows * tile.columns <= kSmallTile;
        const double ends = machine_.task_us + (small ? kSmallEnds : kEnds) * machine_.load_latency_us;
        const double rounds = std::ceil(all / machine_.workers);
        const double used = scalar_ ? kWorthOfOthers * sharing / machine_.workers : 0;
        const double product = (1 + used) * rounds * (static_cast<double>(std::min(depth, k)) * each + ends);
        if (depth >= k) return product;
        const double sums = 4 * static_cast<double>(batch * m * n * weights_) * std::ceil(parts);
        return product + machine_.counter_us + machine_.task_us + machine_.load_latency_us + 2 * sums / cache;
    }

    const MatMulRegion& region_;
    const Machine& machine_;
    bool scalar_;  ///< without tensor cores
    std::int64_t bytes_;
    std::int64_t most_sums_;
    std::int64_t depth_;  ///< values of k that a row is expected to take
    std::int64_t weights_;
};

bool can_be_cut(const MatMulRegion& region, const Machine& machine) {
    const Access* left = plain_left_side(region);
    if (!has_many_rows(region.space, region.a_type) || !can_share_tile(machine.consumer_warps, region.a_type))
        return false;
    if (left == nullptr || !plain_weights(region)) return false;
    const auto lies = plain_operand(*left, 1);
    if (region.ragged && size_of(region.a_type) != 2) return false;
    return lies && (!lies->column || !has_ragged_rows(region));
}

/// Does a task of the product stage rows of the left side that should be cut?
bool has_long_rows(const MatMulRegion& region, const PlanOptions& options) {
    const bool is_direct =
        product_kind(region) == abi::ProductKind::Direct || (region.tile.rows == 0 && !options.stream);
    return is_direct && region.space[3] > kLongestLeftRow && region.stats.empty() && !region.ragged;
}

/// Values of k in each part of such a product: a part for each worker that would wait.
std::int64_t depth_of_part(const MatMulRegion& region, const Machine& machine, const PlanOptions& options) {
    const auto [batch, m, n, k] = region.space;
    const std::int64_t tasks = batch * ceil_div(m, kDirectRows) * ceil_div(n, kDirectColumns);
    const std::int64_t wanted = std::min<std::int64_t>(machine.workers / tasks, options.product_parts);
    return abi::round_up(ceil_div(k, std::max(wanted, ceil_div(k, kLongestLeftRow))), kPartMultiple);
}

}  // namespace

bool can_share_tile(std::int32_t warps, DType type) {
    const bool power = (warps & (warps - 1)) == 0;
    return power && warps >= 4 && (type != DType::F32 || warps <= kMostScalarWarps);
}

bool has_many_rows(const std::array<std::int64_t, 4>& space, DType type) {
    const bool has_tiles = type == DType::F32 || (is_narrow_float(type) && size_of(type) == 2);
    return space[1] >= kManyRows && has_tiles;
}

void cut_products(RegionGraph& graph, const Machine& machine, const PlanOptions& options) {
    bool streams = false;
    for (Region& region : graph.regions) {
        auto* matmul = std::get_if<MatMulRegion>(&region.body);
        if (matmul == nullptr) continue;
        if (can_be_cut(*matmul, machine)) matmul->streamed = false;
        streams |= matmul->streamed;
    }
    std::vector<Region> regions;
    for (Region& region : graph.regions) {
        auto* matmul = std::get_if<MatMulRegion>(&region.body);
        const bool many = matmul != nullptr && can_be_cut(*matmul, machine);
        if (many) {
            const Chooser chooser(*matmul, machine, streams);
            const Cut cut = chooser.best(matmul->ragged ? 1 : options.product_parts);
            matmul->tile = cut.tile;
            if (cut.tile.rows > 0 && cut.depth < matmul->space[3]) {
                if (auto parts = split_product(region, cut.depth, graph.buffers)) {
                    std::move(parts->begin(), parts->end(), std::back_inserter(regions));
                    continue;
                }
                matmul->tile = chooser.best(1).tile;
            }
        }
        if (matmul != nullptr && !many) {
            const NarrowCut cut = narrow_cut(*matmul, machine, options);
            matmul->tile.columns = cut.columns;
            if (cut.columns > 0 && cut.depth < matmul->space[3]) {
                if (auto parts = split_product(region, cut.depth, graph.buffers)) {
                    std::move(parts->begin(), parts->end(), std::back_inserter(regions));
                    continue;
                }
            }
        }
        if (matmul != nullptr && has_long_rows(*matmul, options)) {
            const std::int64_t depth = depth_of_part(*matmul, machine, options);
            if (auto parts = split_product(region, depth, graph.buffers)) {
                std::move(parts->begin(), parts->end(), std::back_inserter(regions));
                continue;
            }
        }
        if (matmul != nullptr && matmul->ragged && matmul->tile.rows == 0) {
            matmul->a = counted_left_side(*matmul);
            matmul->ragged.reset();
        }
        regions.push_back(std::move(region));
    }
    graph.regions = std::move(regions);
}

}  // namespace stretto
