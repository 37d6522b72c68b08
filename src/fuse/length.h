#pragma once

#include "graph/expr.h"

namespace stretto {

/// An exclusive bound on the rows that an attention mask lets through: an I64 expression over the mask's
/// coordinates that varies with none but dimension 0, such that the mask is false for all s >= it. Empty where
/// the mask's form gives none. The mask is an expression over (b, h, q, s) with `extents`, Bool or a float bias.
[[nodiscard]] Expr length_bound(const Expr& mask, const Shape& extents);

}  // namespace stretto
