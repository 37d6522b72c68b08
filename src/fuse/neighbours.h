#pragma once

#include <optional>
#include <vector>

#include "fuse/touches.h"

namespace stretto {

/// The regions between two that wait for the first, directly or not; nothing where the second waits for one of them, so that
/// the two cannot be neighbours.
[[nodiscard]] std::optional<std::vector<std::size_t>> regions_behind(std::size_t first, std::size_t second,
                                                                     const Touches& touches);

/// Puts one region in the place of two, with the name of the second: the regions `behind` come after it, all others between the
/// two before it. An empty region comes first, which keeps the numbers of all others; remove_empty drops it.
void put_together(RegionGraph& graph, std::size_t first, std::size_t second, RegionBody body,
                  const std::vector<std::size_t>& behind);

}  // namespace stretto
