#include "fuse/narrow_product.h"

#include <algorithm>
#include <cmath>

#include "abi/abi.h"
#include "base/division.h"
#include "base/warp.h"
#include "fuse/product_kind.h"

namespace stretto {
namespace {

constexpr std::int64_t kMostRows = 8;  ///< of a task
constexpr std::int64_t kPieceBytes = 16;
constexpr std::int64_t kLeastBytes = 32;  ///< of a row of the weight that a task reads: a sector of memory
constexpr std::int64_t kMostSums = 64;    ///< of one thread, in registers
constexpr std::int64_t kPartMultiple = 64;
/// A worker reads faster than its share of memory where others do not read.
constexpr double kAloneSpeed = 1.3;
/// Pieces of rows, each on a cache line of its own, that a worker reads in a microsecond: measured on an H200.
constexpr double kLines = 350;
/// Elements of the left side that a worker stages in a microsecond: measured on an H200.
constexpr double kStaged = 1500;
/// Parts of a sum that are on their way together.
constexpr double kPartsAhead = 8;
/// What a task costs besides its product, in units of Machine::load_latency_us: staging the left side, the first and the last
/// loads.
constexpr double kEnds = 4;

/// As wide_weights, with or without a cut.
std::optional<PlainOperand> plain_pieces(const MatMulRegion& region) {
    if (product_kind(region) != abi::ProductKind::Direct || region.a_type == DType::F64) return std::nullopt;
    const auto lie = plain_weights(region);
    if (!lie || lie->grain * static_cast<std::int64_t>(size_of(region.a_type)) != kPieceBytes)
        return std::nullopt;
    if (region.space[lie->column ? 2 : 3] % lie->grain != 0) return std::nullopt;
    const std::int64_t sums =
        std::min(region.space[1], kMostRows) * static_cast<std::int64_t>(region.weights.size());
    if (sums * lie->grain > kMostSums) return std::nullopt;
    return lie;
}

/// In rounds of one task for each worker; the parts' results are stored, handed over, and read.
double time_of(const MatMulRegion& region, const Machine& machine, std::int64_t columns, std::int64_t depth) {
    const auto [batch, m, n, k] = region.space;
    const auto weights = static_cast<double>(region.weights.size());
    const std::int64_t parts = ceil_div(k, depth);
    const auto tasks = static_cast<double>(batch * ceil_div(m, kMostRows) * ceil_div(n, columns) * parts);
    const double sharing = std::min<double>(tasks, machine.workers);
    const double piece = static_cast<double>(columns) * static_cast<double>(size_of(region.a_type));
    const double speed = std::min(
        {machine.bandwidth / sharing, kAloneSpeed * machine.bandwidth / machine.workers, kLines * piece});
    const double bytes =
        static_cast<double>(depth * columns) * weights * static_cast<double>(size_of(region.a_type));
    const auto rows = static_cast<double>(std::min(m, kMostRows));
    const double staged = rows * static_cast<double>(depth);
    const double each = machine.task_us + kEnds * machine.load_latency_us + bytes / speed + staged / kStaged;
    const double product = std::ceil(tasks / machine.workers) * each;
    if (parts == 1) return product;
    const double sums = 4 * weights * static_cast<double>(batch * m * n * parts);
    const double rounds = std::ceil(static_cast<double>(parts) / kPartsAhead);
    return product + machine.counter_us + machine.task_us + rounds * machine.load_latency_us +
           2 * sums / machine.bandwidth;
}

}  // namespace

std::optional<PlainOperand> wide_weights(const MatMulRegion& region) {
    const auto lie = plain_pieces(region);
    if (lie && lie->column && region.tile.columns == 0) return std::nullopt;
    return lie;
}

NarrowCut narrow_cut(const MatMulRegion& region, const Machine& machine, const PlanOptions& options) {
    const auto lie = plain_pieces(region);
    if (!lie || !lie->column) return {};
    const std::int64_t k = region.space[3];
    const std::int64_t rows = std::min(region.space[1], kMostRows);
    NarrowCut best;
    double least = 0;
    for (std::int64_t columns = lie->grain; columns <= kLanesOfWarp * lie->grain; columns *= 2) {
        if (columns * static_cast<std::int64_t>(size_of(region.a_type)) < kLeastBytes) continue;
        if (rows * columns > abi::kDirectChunk) break;
        const std::int64_t most_parts = region.stats.empty() ? options.product_parts : 1;
        for (std::int64_t parts = 1; parts <= std::max(most_parts, ceil_div(k, kLongestLeftRow)); ++parts) {
            const std::int64_t depth = parts == 1 ? k : abi::round_up(ceil_div(k, parts), kPartMultiple);
            if (depth > kLongestLeftRow && region.stats.empty()) continue;
            const double time = time_of(region, machine, columns, depth);
            if (best.columns == 0 || time < least) {
                best = {static_cast<std::int32_t>(columns), depth};
                least = time;
            }
        }
    }
    return best;
}

}  // namespace stretto
