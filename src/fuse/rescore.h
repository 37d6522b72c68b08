#pragma once

#include <vector>

#include "base/machine.h"
#include "fuse/decide.h"
#include "graph/graph.h"

namespace stretto {

/// Contractions that are computed anew by whoever reads them, and what that makes of other values.
struct Rescored {
    std::vector<bool>
        values;  ///< such contractions (scores), and element-wise values of them or for them: never stored
    std::vector<bool> sums;  ///< the contractions and reductions that read them (ScoredRegion)
};

/// Finds the contractions of few terms and many results that are cheaper computed anew by each reader than stored once, such
/// as the scores of attention: reading their operands again costs less than writing and reading them (Dao et al.,
/// FlashAttention, 2022). All that comes from one, element by element, ends in sums that a ScoredRegion can
/// compute. Nothing in `ruled_out` is among the values.
[[nodiscard]] Rescored find_rescored(const Graph& graph, const Machine& machine, const RuledOut& ruled_out);

}  // namespace stretto
