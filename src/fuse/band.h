#pragma once

#include "base/box.h"
#include "graph/expr.h"

namespace stretto {

/// Where terms of a sum over context positions count at all.
enum class Counts : std::uint8_t {
    NonZero,  ///< the term may differ from zero
    Visible,  ///< the term may be above what hides a position in a maximum
};

/// The values of c - r outside of which no term counts, for an expression over [b, r, n, c]: found from comparisons of
/// coordinates, such as c <= r in a causal mask. A hidden score less a row's maximum counts as so low that its exponential
/// is zero: of a row that sees nothing at all, only what the band leaves takes part.
/// Ensures: every row has a position in the band.
[[nodiscard]] Range band_of(const Expr& term, Counts counts, const Shape& space);

/// `term` for pairs of a row and a position in the band, without the comparisons that hold for all of them.
[[nodiscard]] Expr within_band(const Expr& term, Range band, const Shape& space);

}  // namespace stretto
