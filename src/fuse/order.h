#pragma once

#include <optional>
#include <vector>

#include "fuse/build.h"

namespace stretto {

/// Program order of regions: every read after the write it sees, every write in place after the reads of the old
/// value. Empty, with `*update` set to the value of an Update that cannot be done in place, where there is none.
[[nodiscard]] std::optional<std::vector<std::size_t>> program_order(const Graph& graph,
                                                                    const std::vector<DraftRegion>& drafts,
                                                                    ValueId* update);

}  // namespace stretto
