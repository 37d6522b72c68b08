#pragma once

#include "graph/expr.h"

namespace stretto {

/// An exclusive bound on the rows that an attention mask lets through.
struct LengthBound {
    /// I64, over the mask's coordinates, varying with none but dimension 0: the mask is false for all s >= it. Empty where
    /// the mask's form gives none.
    Expr length;
    bool exact = false;  ///< The mask is true, or adds nothing, for all s < length: it says nothing else.
};

/// Requires: the mask is an expression over (b, h, q, s) with `extents`, Bool or a float bias.
[[nodiscard]] LengthBound length_bound(const Expr& mask, const Shape& extents);

}  // namespace stretto
