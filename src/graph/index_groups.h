#pragma once

#include "graph/index_map.h"

namespace stretto {

// Groups are `count` neighbours along dimension `dim`, from each multiple of `count` on.

/// Do the elements of each group lie side by side, at a multiple of `count`, and are they masked all or none?
[[nodiscard]] bool lies_in_groups(const IndexMap& map, std::size_t dim, std::int64_t count);

/// Do elements of a group differ in place, or in whether they are masked?
[[nodiscard]] bool moves_within_groups(const IndexMap& map, std::size_t dim, std::int64_t count);

/// Does the place of an element depend on the coordinate of `dim`?
[[nodiscard]] bool moves_along(const IndexMap& map, std::size_t dim);

/// Is it one element for all positions?
[[nodiscard]] bool is_uniform(const IndexMap& map);

}  // namespace stretto
