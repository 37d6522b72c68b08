#pragma once

#include <optional>
#include <vector>

#include "base/box.h"
#include "graph/expr.h"

namespace stretto {

/// For each node the values that it can have, as far as the constants of the expression say: those of small integers alone.
/// Coordinates have 31 bits.
[[nodiscard]] std::vector<std::optional<Range>> value_ranges(const Expr& expr);

}  // namespace stretto
