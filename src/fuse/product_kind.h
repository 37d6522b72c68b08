#pragma once

#include "abi/abi.h"
#include "fuse/region.h"

namespace stretto {

/// How the tasks of a product read its weights. Panels, on tensor cores, need streamed 16-bit weights of the left side's
/// own type and whole chunks of k.
[[nodiscard]] abi::ProductKind product_kind(const MatMulRegion& region);

/// The product whose weights stream, if the region is one.
[[nodiscard]] const MatMulRegion* streamed_product(const RegionBody& body);

/// Rows of a weight in each load of a product whose weights travel as whole rows.
[[nodiscard]] std::int64_t rows_per_load(const MatMulRegion& region);

}  // namespace stretto
