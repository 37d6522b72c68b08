#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/box.h"
#include "graph/expr.h"

namespace stretto {

/// The integers that a load yields; nothing where that is not known.
using ValuesOfLoad = std::function<std::optional<Range>(const Access& access)>;

/// For each node the integers that it can have, as far as types, the constants of the expression and its loads say.
/// Coordinates have 31 bits. Where a load is masked, it yields zero, too.
[[nodiscard]] std::vector<std::optional<Range>> value_ranges(const Expr& expr,
                                                             const ValuesOfLoad& of_load = {});

}  // namespace stretto
