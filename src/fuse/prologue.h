#pragma once

#include <functional>
#include <vector>

#include "fuse/region.h"

namespace stretto {

/// A left side whose row reductions are computed beside it.
struct Prologue {
    std::vector<RowStat> stats;
    Expr a;
};

/// Turns loads of reductions in the left side `a` (over [b, m, n, k]) into row statistics. `reduction_of` gives the
/// reduction behind a source that is not stored, with its result's shape and all inlined expressions expanded.
/// Scalar work on a statistic that does not vary with k moves into its `finish`.
/// Throws Inexpressible naming the source where a reduction does not run along the rows of `a`.
struct InlineReduction {
    const Reduce* reduce = nullptr;
    Expr term;  ///< over the result's coordinates, then the reduced ones
    Shape shape;
};
[[nodiscard]] Prologue make_prologue(const Expr& a, const std::array<std::int64_t, 4>& space,
                                     const std::function<const InlineReduction*(std::int32_t)>& reduction_of);

/// A decision of `decide` that cannot be carried out: `source` has to be stored.
struct Inexpressible {
    std::int32_t source;
};

}  // namespace stretto
