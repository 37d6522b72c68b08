#pragma once

#include "profile/trace.h"
#include "schedule/plan.h"
#include "support/sample_plan.h"

namespace stretto::sample {

/// A trace of the plan with random times: tasks follow each other on a worker and wait for the tasks before them.
[[nodiscard]] Trace random_trace(const Plan& plan, unsigned seed);

/// `layers` times two regions of `width` tasks each, tasks dealt to `width` workers; every task waits for all tasks of
/// the region before. Weights of the first region of a layer are streamed.
[[nodiscard]] Plan layered_plan(int layers, int width);

}  // namespace stretto::sample
