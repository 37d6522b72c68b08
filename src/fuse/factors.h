#pragma once

#include <vector>

#include "graph/expr.h"

namespace stretto {

/// An expression as a product: constant * others[0] * others[1] * ... A Bool among the others is 1 where it holds, else 0, and
/// is there once.
struct Factors {
    double constant = 1;
    std::vector<Expr> others;
};

/// Takes products, quotients, signs and selections between something and zero apart. Roundings to narrow floats between them
/// are dropped, as within any region (`--numerics=fused`).
[[nodiscard]] Factors factors_of(const Expr& expr);

/// The product of factors without Bools, in F32.
[[nodiscard]] Expr product_of(const Factors& factors);

/// Takes each of `taken` out of `from` once. False where one of them is not there.
[[nodiscard]] bool take_out(std::vector<Expr>& from, const std::vector<Expr>& taken);

}  // namespace stretto
