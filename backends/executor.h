#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "profile/trace.h"
#include "schedule/plan.h"

namespace stretto {

/// Where the buffers of a plan live, by BufferId: set for Parameter, State, Input and Output, null for Constant and
/// Arena. Pointers are to host memory for the reference and cpu backends, to device memory for cuda.
using Bindings = std::vector<void*>;

/// How often one launch runs its plan. State carries from one iteration to the next; between two iterations all workers
/// meet, so that everything that one writes comes before everything that the next touches.
struct Iterations {
    std::uint32_t count = 1;  ///< at least 1
    /// Valid: a Bool state of one element. The iteration in which the program leaves it true is the launch's last.
    BufferId stop;
    /// Not null: host memory (for cuda also mapped into the device's address space) that shows how many iterations are
    /// done, with abi::kEnded once no other follows. What an iteration wrote to host memory is there before its count.
    std::uint32_t* progress = nullptr;
    /// Not null: host memory as above that says how many iterations may run. At the end of each the launch reads it, and
    /// ends where no other is granted (the first one always runs). The host may raise and lower the number meanwhile; what
    /// it wrote before it raised it, and copies that it has seen completed, are there for the iterations granted.
    std::uint32_t* granted = nullptr;
};

/// A plan made ready to run on one backend.
class Executor {
public:
    virtual ~Executor() = default;

    /// Runs one launch. Parameters and State must be the same pointers at every call; Input and Output may change.
    /// `stream` is a CUstream for cuda (the call returns once the launch is queued) and ignored by the others (the
    /// call returns when it is done). Throws RunError.
    virtual void run(const Bindings& bindings, void* stream, const Iterations& iterations) = 0;
    void run(const Bindings& bindings, void* stream) { run(bindings, stream, Iterations{}); }

    /// Waits for queued launches and throws RunError if one failed (which wait of which task timed out).
    virtual void synchronize() = 0;

    /// Times of the latest launch. Requires: `synchronize` since then. Throws UserError unless the executor was made
    /// to be traced.
    [[nodiscard]] virtual Trace trace() const {
        throw UserError("this executor keeps no times: make it with `traced`, on the cpu or cuda backend");
    }

    /// Parameters have other values than at the last launch: copies that the executor keeps of them are made anew.
    virtual void refresh() {}

    /// What about the compiled program is slower than it need be, each in words.
    [[nodiscard]] virtual std::vector<std::string> warnings() const { return {}; }
};

}  // namespace stretto
