#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "graph/expr.h"

namespace stretto {

/// How a value moves within a group of neighbours.
enum class InGroup : std::uint8_t {
    Same,    ///< all neighbours have one value
    Counts,  ///< neighbour v has a multiple of the group's length plus v
    Other,
};

/// By node of `expr`, for groups of `count` neighbours along dimension `dim`, which begin at multiples of `count`. Of loads,
/// those in `same` are the same for all of them.
[[nodiscard]] std::vector<InGroup> ways_in_groups(const Expr& expr, std::size_t dim, std::int64_t count,
                                                  const std::set<std::size_t>& same = {});

}  // namespace stretto
