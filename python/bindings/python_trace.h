#pragma once

#include "profile/trace.h"
#include "runtime/program.h"

namespace stretto::python {

/// What Python holds as a Trace: the times, and the program that they are of.
struct PythonTrace {
    const Program& program;
    Trace trace;
};

}  // namespace stretto::python
