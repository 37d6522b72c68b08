#pragma once

#include <optional>

#include "base/machine.h"
#include "base/plan_options.h"
#include "fuse/product_operand.h"

namespace stretto {

/// Tasks of products of few rows stage whole rows of the left side: longer ones take more time than a hand-off, and would not
/// fit in shared memory at some length.
inline constexpr std::int64_t kLongestLeftRow = 16384;

/// How the weights lie of a product of few rows whose tasks read them from global memory 16 bytes at a time; nothing for
/// other products. Where columns are neighbours the product must have its cut.
[[nodiscard]] std::optional<PlainOperand> wide_weights(const MatMulRegion& region);

/// How such a product is cut whose columns are neighbours: columns of a task, and values of k in one part.
struct NarrowCut {
    std::int32_t columns = 0;  ///< none for other products
    std::int64_t depth = 0;
};

/// The cut of least time on `machine`: tasks of few columns read short pieces of many rows of the weight; tasks of many
/// columns are few unless k is cut, too, and parts are handed over and summed.
[[nodiscard]] NarrowCut narrow_cut(const MatMulRegion& region, const Machine& machine,
                                   const PlanOptions& options);

}  // namespace stretto
