#pragma once

#include "profile/trace.h"
#include "schedule/plan.h"

namespace stretto::python {

/// What Python holds as a Trace: the times, and the plan that they are of.
struct PythonTrace {
    const Plan& plan;
    Trace trace;
};

}  // namespace stretto::python
