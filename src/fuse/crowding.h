#pragma once

#include <vector>

#include "fuse/build.h"
#include "fuse/decide.h"

namespace stretto {

/// Inlined values that should be stored after all because some region would otherwise read more buffers than a record
/// names (abi::kMaxOperands), in ascending order; empty where all regions have room. Chains such as a residual stream
/// whose every link is cheap to recompute grow without bound; this cuts them at even distances.
[[nodiscard]] std::vector<ValueId> crowded_values(const Graph& graph, const Decisions& decisions,
                                                  const std::vector<DraftRegion>& drafts);

}  // namespace stretto
