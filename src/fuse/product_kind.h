#pragma once

#include "abi/abi.h"
#include "fuse/region.h"

namespace stretto {

/// How the tasks of a product read its weights. Panels, on tensor cores, need streamed 16-bit weights of the left side's
/// own type and whole chunks of k.
[[nodiscard]] abi::ProductKind product_kind(const MatMulRegion& region);

/// The product whose weights stream, if the region is one.
[[nodiscard]] const MatMulRegion* streamed_product(const RegionBody& body);

/// Lines (abi::kLineBytes) of each row in a block of k of a product in tiles. All warps wait for each other once a block: small
/// F32 tiles have several lines, where such blocks divide k.
[[nodiscard]] std::int64_t row_lines(const MatMulRegion& region);
/// The most lines that they are for any k. `rows` are those of the tile and its columns of all weights.
[[nodiscard]] std::int64_t most_row_lines(DType type, std::int64_t rows);

/// Rows of a weight in each load of a product whose weights travel as whole rows.
[[nodiscard]] std::int64_t rows_per_load(const MatMulRegion& region);

}  // namespace stretto
