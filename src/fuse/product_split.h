#pragma once

#include <optional>
#include <vector>

#include "fuse/region.h"

namespace stretto {

/// A product as regions that follow each other: the parts of k, as batch entries of one product or of two, whose results go to
/// buffers of their own, and a map that adds them in order and does the stores. New buffers are appended to `buffers`.
/// Nothing where an operand's k cannot be cut at multiples of `depth`. Requires: no statistics, not ragged.
[[nodiscard]] std::optional<std::vector<Region>> split_product(const Region& region, std::int64_t depth,
                                                               std::vector<Buffer>& buffers);

}  // namespace stretto
