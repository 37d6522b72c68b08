#pragma once

#include <optional>

#include "graph/graph.h"

namespace stretto {

/// A sum over j of which one term counts at most, that of j == e, is the term at e: an element-wise value, or a sum over what
/// else is reduced. Seen through element-wise operands, in whatever form the term has the comparison: it is enough that the
/// term vanishes without it. What the term reads at j is then read at e.
///
/// Equal to the sum but for the sign of zeros: terms that do not count add zeros, and a selection keeps what is not finite out
/// of them. Where a zero is multiplied by a value instead, which may not be finite, that product is added to the result.
void replace_selected_sums(Graph& graph);

/// The sum of `term` over coordinate `dim`, of `extent` positions, as an expression over the other coordinates; nothing where
/// more than one of them may count.
[[nodiscard]] std::optional<Expr> selected_sum(const Expr& term, std::size_t dim, std::int64_t extent);

}  // namespace stretto
