#pragma once

#include <vector>

#include "base/machine.h"
#include "base/plan_options.h"
#include "schedule/plan.h"

namespace stretto {

/// Adds events, waits and signals to a plan whose queues are filled, marks the buffers that travel as tagged words, and
/// records the choice for every edge.
/// For each dependency of a region on an earlier one: nothing where words carry it (schedule/words.h) or queue order or
/// other waits enforce it already, else the cheapest by the machine's costs of one counter for the whole region, one
/// for each part that some reader needs, one for each reader's set, or a barrier for all that came before.
void choose_hand_offs(Plan& plan, const Machine& machine, const PlanOptions& options);

}  // namespace stretto
