#pragma once

#include <optional>
#include <string>

#include "base/machine.h"
#include "schedule/plan.h"

namespace stretto {

/// Part of a launch in microseconds.
struct Window {
    double begin = 0;
    double end = 0;
};

/// A picture (SVG) of the simulated launch: a line for each worker, a bar for each task, colored by the kind of its
/// region; blank is waiting. The whole launch without a window.
/// Requires: verify(plan) is empty. Throws UserError on an empty window or one outside the launch.
[[nodiscard]] std::string timeline_svg(const Plan& plan, const Machine& machine,
                                       std::optional<Window> window);

}  // namespace stretto
