#pragma once

#include <cstdint>

#include "simplify/strip_uses.h"

namespace stretto {

/// The graph with the product's columns gone through in strips of `width` columns, as often as `uses` says. Throws Uncut (see
/// strip_expr.h) where an access cannot be cut.
[[nodiscard]] Graph with_strips(const Graph& graph, const StripUses& uses, std::int64_t width);

}  // namespace stretto
