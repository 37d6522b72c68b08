#pragma once

#include "fuse/region.h"

namespace stretto {

/// Exchanges two sums where the inner one is known by then. With a score x(r, c) = sum over e of left(r, e) * right(c, e),
///   sum over c of w(r, c) * x(r, c) = sum over e of left(r, e) * mix(r, e),  mix(r, e) = sum over c of w(r, c) * right(c, e):
/// a ScoredRegion that reduces w * x, factor by factor the same w (but for factors that do not vary with c) with which an
/// earlier one mixes right, becomes a reduction over e of left and the stored mix. The row sums in the backward pass of a
/// softmax are of this kind. The mix is rounded to 16 bits at most, as the products x(r, c) are by the program itself; the
/// error that this makes in a row is of the same size (decision 21).
/// Requires: regions in program order.  Ensures: the same results but for roundings.
void exchange_sums(RegionGraph& graph);

}  // namespace stretto
