#pragma once

#include "fuse/region.h"

namespace stretto {

/// Shorter rows have less than 16 bytes for each lane of a warp, so that what they would gain is little.
inline constexpr std::int64_t kLeastPaddedRow = 256;

/// Lets the rows of intermediates begin at multiples of kMostInGroup elements: an arena buffer of several rows, of `least`
/// elements or more, gets rows that are longer by a pad. All accesses move over to the new rows; none touches the pad, which
/// nobody ever writes. A buffer stays as it is where an access crosses from row to row, or where a map takes it together with
/// something in odd rows that is not ours: such rows move in groups only as long as all follow one another.
/// Why here: at the end of fuse, when all buffers and accesses are there, and before anything counts their elements.
void pad_rows(RegionGraph& graph, std::int64_t least = kLeastPaddedRow);

}  // namespace stretto
