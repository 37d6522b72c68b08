#pragma once

#include <vector>

#include "base/error.h"
#include "profile/trace.h"
#include "schedule/plan.h"

namespace stretto {

/// Where the buffers of a plan live, by BufferId: set for Parameter, State, Input and Output, null for Constant and
/// Arena. Pointers are to host memory for the reference and cpu backends, to device memory for cuda.
using Bindings = std::vector<void*>;

/// A plan made ready to run on one backend.
class Executor {
public:
    virtual ~Executor() = default;

    /// Runs one launch. Parameters and State must be the same pointers at every call; Input and Output may change.
    /// `stream` is a CUstream for cuda (the call returns once the launch is queued) and ignored by the others (the
    /// call returns when it is done). Throws RunError.
    virtual void run(const Bindings& bindings, void* stream) = 0;

    /// Waits for queued launches and throws RunError if one failed (which wait of which task timed out).
    virtual void synchronize() = 0;

    /// Times of the latest launch. Requires: `synchronize` since then. Throws UserError unless the executor was made
    /// to be traced.
    [[nodiscard]] virtual Trace trace() const {
        throw UserError("this executor keeps no times: make it with `traced`, on the cpu or cuda backend");
    }
};

}  // namespace stretto
