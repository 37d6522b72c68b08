#include "fuse/product_kind.h"

#include <algorithm>

namespace stretto {
namespace {

/// Each weight's sums stay in registers while a panel's pieces pass.
constexpr std::size_t kMostPanelWeights = 8;
/// A block of a small tile has so many lines of both operands at most, and a row so many of them.
constexpr std::int64_t kSmallBlockLines = 128;
constexpr std::int64_t kMostRowLines = 4;

}  // namespace

const MatMulRegion* streamed_product(const RegionBody& body) {
    const auto* matmul = std::get_if<MatMulRegion>(&body);
    return matmul != nullptr && matmul->streamed ? matmul : nullptr;
}

abi::ProductKind product_kind(const MatMulRegion& region) {
    if (region.tile.rows > 0) return abi::ProductKind::Tiles;
    if (!region.streamed) return abi::ProductKind::Direct;
    const bool same_type = std::all_of(region.weights.begin(), region.weights.end(),
                                       [&](const Access& weight) { return weight.type == region.a_type; });
    const bool panels = is_narrow_float(region.a_type) && size_of(region.a_type) == 2 && same_type &&
                        region.space[3] % abi::kChunk == 0 && region.weights.size() <= kMostPanelWeights;
    return panels ? abi::ProductKind::Panels : abi::ProductKind::Rows;
}

std::int64_t most_row_lines(DType type, std::int64_t rows) {
    if (type != DType::F32) return 1;
    std::int64_t lines = kMostRowLines;
    while (lines > 1 && lines * rows > kSmallBlockLines) lines /= 2;
    return lines;
}

std::int64_t row_lines(const MatMulRegion& region) {
    const auto weights = static_cast<std::int64_t>(region.weights.size());
    const std::int64_t line = abi::kLineBytes / static_cast<std::int64_t>(size_of(region.a_type));
    const std::int64_t whole = (region.space[3] + line - 1) / line;
    std::int64_t lines = most_row_lines(region.a_type, region.tile.rows + weights * region.tile.columns);
    while (lines > 1 && whole % lines != 0) lines /= 2;
    return lines;
}

std::int64_t rows_per_load(const MatMulRegion& region) {
    const auto row = region.space[3] * static_cast<std::int64_t>(size_of(region.weights.front().type));
    return std::max<std::int64_t>(abi::kRowSlotBytes / std::max<std::int64_t>(row, 1), 1);
}

}  // namespace stretto
