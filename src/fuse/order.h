#pragma once

#include <optional>
#include <vector>

#include "fuse/build.h"

namespace stretto {

/// An Update that cannot be done in place as it stands.
struct UpdateProblem {
    ValueId update;
    bool reads_itself =
        false;  ///< its region reads elements that it writes; else the old value is needed later
};

/// Program order of regions: every read after the write it sees, every write in place after the reads of the old
/// value. Empty, with `*problem` filled, where an update stands in the way of one.
/// Throws NotAnEpilogue where regions wait for each other because of what their epilogues read.
[[nodiscard]] std::optional<std::vector<std::size_t>> program_order(const Graph& graph,
                                                                    const std::vector<DraftRegion>& drafts,
                                                                    UpdateProblem* problem);

}  // namespace stretto
