#pragma once

#include <string_view>

#include "base/machine.h"
#include "base/plan_options.h"
#include "fuse/region.h"

namespace stretto {

enum class Numerics : std::uint8_t {
    Fused,  ///< F32 inside a region and in small intermediates, one rounding at all other stores
    Exact,  ///< every rounding of the source program is kept
};

/// "fused" or "exact". Throws UserError on any other name.
[[nodiscard]] Numerics numerics_named(std::string_view name);

/// Groups operations into regions, each computed by one task kind.
/// Requires: check(graph).  Ensures: each output and state update is stored by exactly one region; regions
/// are in an order that respects every read after write, write after read and write after write of the source
/// program. Why here: after simplify (no dead work is fused), before tile (regions decide what a task is).
[[nodiscard]] RegionGraph fuse(const Graph& graph, const Machine& machine,
                               Numerics numerics = Numerics::Fused, const PlanOptions& options = {});

}  // namespace stretto
