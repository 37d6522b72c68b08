#pragma once

#include <optional>

#include "fuse/region.h"

namespace stretto {

/// A left side as a product: a(b, m, k) = rest(b, m, k) * scale(b, m).
struct ScaledLeft {
    Expr rest;
    Expr scale;  ///< over Stat nodes and constants
};

/// Takes the factors of `a` that are made of row statistics alone out of it, through F32 products and quotients.
/// Empty where there are none. Reorders F32 operations: for fused numerics only.
[[nodiscard]] std::optional<ScaledLeft> split_scale(const Expr& a);

/// `expr` of a store with `scale` times every accumulator.
[[nodiscard]] Expr with_scale(const Expr& expr, const Expr& scale);

}  // namespace stretto
