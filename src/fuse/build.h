#pragma once

#include <vector>

#include "base/machine.h"
#include "fuse/decide.h"
#include "fuse/fuse.h"

namespace stretto {

/// A region whose accesses name values of the prepared graph, before values have buffers.
struct DraftRegion {
    Region region;
    std::vector<ValueId> values;  ///< what it computes, ascending
};

/// Builds the regions that `decisions` call for.
/// Throws Inexpressible or NotAnEpilogue where a decision cannot be carried out.
[[nodiscard]] std::vector<DraftRegion> build_regions(const Graph& graph, const Decisions& decisions,
                                                     const Machine& machine, Numerics numerics);

/// A decision of `decide` that cannot be carried out: `value` cannot be computed in its anchor's epilogue.
struct NotAnEpilogue {
    ValueId value;
};

}  // namespace stretto
