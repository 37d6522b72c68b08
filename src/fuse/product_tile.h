#pragma once

#include "base/machine.h"
#include "base/plan_options.h"
#include "fuse/region.h"

namespace stretto {

/// Products of fewer rows read their weights through the ring, a few rows at a time.
inline constexpr std::int64_t kManyRows = 16;

/// Can so many warps of a worker share a tile of products of this type?
[[nodiscard]] bool can_share_tile(std::int32_t warps, DType type);

/// Does a product of this space and type stage both operands as they lie in memory, if it can?
[[nodiscard]] bool has_many_rows(const std::array<std::int64_t, 4>& space, DType type);

/// Gives every product of many rows whose operands are plain its tile: the one of least time on `machine`. Products whose
/// results are few and whose sums are long are cut along k, too: their parts are summed in order by a region of their own.
/// So are other products that read their weights directly, where a row of the left side is long.
void cut_products(RegionGraph& graph, const Machine& machine, const PlanOptions& options = {});

}  // namespace stretto
