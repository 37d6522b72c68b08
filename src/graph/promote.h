#pragma once

#include <string>
#include <vector>

#include "graph/expr.h"

namespace stretto {

/// The type in which arithmetic on `type` is done: F32, F64 or I64 (see DType).
[[nodiscard]] DType compute_type(DType type);

/// PyTorch's type promotion of two tensors of rank 1 and more.
[[nodiscard]] DType promoted(DType a, DType b);

/// Adds `op` to `expr`, converting arguments to the type in which its arithmetic is done: that of `result`,
/// or that of the operands for comparisons and logic.
std::int32_t apply_typed(Expr& expr, Op op, DType result, std::vector<std::int32_t> args);

/// "[2, 3]", for messages.
[[nodiscard]] std::string to_text(const Shape& shape);

}  // namespace stretto
