#pragma once

#include "graph/expr.h"

namespace stretto {

/// Cost of a load in units of one F32 multiply: mostly its address arithmetic.
inline constexpr double kLoadOperations = 4;

/// Rough cost of evaluating an expression once, in units of one F32 multiply.
[[nodiscard]] double operations(const Expr& expr);

}  // namespace stretto
