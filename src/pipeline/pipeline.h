#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/plan_options.h"
#include "emit/emit.h"
#include "fuse/fuse.h"
#include "graph/graph.h"
#include "schedule/plan.h"

namespace stretto {

struct CompileOptions {
    Machine machine;
    Numerics numerics = Numerics::Fused;
    PlanOptions plan = {};
};

struct StageTime {
    std::string_view stage;
    double milliseconds = 0;
};

struct Compiled {
    Plan plan;
    Emission emission;
    CompileOptions options;  ///< that it was made with; the machine has the workers that the plan uses
    std::vector<StageTime> times;
};

/// All stages, in order. Throws InternalError with every fault if the plan does not verify.
/// STRETTO_DUMP=fuse,schedule writes the text form of these stages' results to stderr (or, where
/// STRETTO_DUMP_DIR is set, to <dir>/<stage>.txt); STRETTO_TIME=1 prints the stage times to stderr.
[[nodiscard]] Compiled compile(const Graph& graph, const CompileOptions& options);

/// The stages after fuse, for regions that were written by hand.
[[nodiscard]] Compiled compile_regions(RegionGraph regions, const CompileOptions& options);

}  // namespace stretto
