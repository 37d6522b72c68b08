#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace stretto {

/// Results of a product that are reduced along its long rows, as logits are, need not be stored: with `strips` of 2 or more
/// the columns are gone through in about so many strips, once for each reduction that needs the result of an earlier one (a
/// sum of exponentials less their maximum does not), and each time the strip's results are computed anew. What is
/// computed from the rows, element by element, and multiplied again, is a strip, too; sums over columns go on from strip to
/// strip, in F32, and what keeps the columns is put together. Two strips have buffers at a time, whatever their number.
///
/// Of several such products, the one with the most results. `strips` of 1 leaves the graph as it is; 0: strips of about
/// 32 MB, at most eight. Widths suit tiles for so many `workers`.
///
/// Requires: a simplified graph.  Ensures: check(result), the same outputs but for the order of sums and the sign of zeros.
/// Why here: repeated nodes are one after simplify, which would undo this.
[[nodiscard]] Graph in_strips(const Graph& graph, std::int64_t strips, std::int64_t workers);

}  // namespace stretto
