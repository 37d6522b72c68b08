#pragma once

#include <string>
#include <vector>

#include "graph/index_map.h"

namespace stretto {

/// An index map as integer arithmetic over named coordinates.
struct IndexText {
    std::string offset;  ///< in elements; at least "0"
    std::string inside;  ///< condition under which memory may be touched; empty where it always may
};

/// `coordinates[d]` is an I32 variable, or "0". `wide`: offsets do not fit in 32 bits.
[[nodiscard]] IndexText index_text(const IndexMap& map, const std::vector<std::string>& coordinates,
                                   bool wide);

}  // namespace stretto
