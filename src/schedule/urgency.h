#pragma once

#include "base/machine.h"
#include "tile/task.h"

namespace stretto {

/// The same tasks, with regions in the order in which they should start: of those that could start at a time, the one goes
/// first behind which the longest chain of others waits. So weight gradients and optimizers fill the gaps of the chain of
/// backward passes, and what is needed late never stands in front of it. This is list scheduling (Graham, "Bounds on
/// Multiprocessing Timing Anomalies", 1969) by upward rank (Topcuoglu, Hariri and Wu, HEFT, 2002).
/// A program that streams the weights of half of its products stays as it is: the stream fills its gaps.
/// Requires: each range of `after` lies in one region.  Ensures: tasks come behind all that they come after.
[[nodiscard]] TaskGraph by_urgency(TaskGraph graph, const Machine& machine);

}  // namespace stretto
