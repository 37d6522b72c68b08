#pragma once

#include <optional>
#include <vector>

#include "fuse/build.h"

namespace stretto {

/// An Update that cannot be done in place as it stands.
struct UpdateProblem {
    ValueId update;
    /// Its new elements have to be stored before they are written: its region reads elements that it writes, or others
    /// wait for it that it waits for. Otherwise the old value is needed later, and the update works on a copy.
    bool separate = false;
};

/// Program order of regions: every read after the write it sees, every write in place after the reads of the old
/// value; small updates that nobody waits for are put off behind other regions. Empty, with `*problems` filled, where
/// updates stand in the way of one: all of them, so that one more try is enough for most programs.
/// Throws NotAnEpilogue where regions wait for each other because of what their epilogues read.
[[nodiscard]] std::optional<std::vector<std::size_t>> program_order(const Graph& graph,
                                                                    const std::vector<DraftRegion>& drafts,
                                                                    std::vector<UpdateProblem>* problems);

}  // namespace stretto
