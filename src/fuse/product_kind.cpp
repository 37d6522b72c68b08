#include "fuse/product_kind.h"

#include <algorithm>

namespace stretto {
namespace {

/// Each weight's sums stay in registers while a panel's pieces pass.
constexpr std::size_t kMostPanelWeights = 8;

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

std::int64_t rows_per_load(const MatMulRegion& region) {
    const auto row = region.space[3] * static_cast<std::int64_t>(size_of(region.weights.front().type));
    return std::max<std::int64_t>(abi::kRowSlotBytes / std::max<std::int64_t>(row, 1), 1);
}

}  // namespace stretto
