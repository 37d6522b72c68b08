#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/executor.h"
#include "runtime/backend.h"
#include "runtime/program.h"

namespace stretto {

struct SessionOptions {
    bool traced = false;  ///< Keeps times of each run: for `Session::trace`, on the cpu and cuda backends.
    bool packed_weights =
        false;  ///< On cuda, weights stream from packed copies, which take memory of their own.
    std::vector<std::string> states_on_host{};  ///< States in memory of the host: read while iterations run.
};

/// A program made ready to run on one backend, with memory for all of its tensors. State (a KV cache, say) lives in
/// the session and is carried from one run to the next. Not for use by several threads at a time.
class Session {
public:
    /// Throws UserError where the backend is not available here, where the program was planned for another kind of
    /// machine, where there is not enough memory (nothing is allocated then), or where `states_on_host` names no state.
    Session(std::shared_ptr<const Program> program, Backend backend, const SessionOptions& options = {});
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Gives an input, or replaces a state, by name. Throws UserError if its type or shape is not the program's.
    void set(std::string_view name, const HostTensor& tensor);
    /// An output of the last run, or the present value of a state, copied. Throws UserError on an unknown name, and
    /// for an output before the first run.
    [[nodiscard]] HostTensor get(std::string_view name) const;

    /// One launch, in which the plan runs `iterations` times. Throws UserError naming each input that was never given;
    /// RunError if the launch fails.
    void run(std::uint32_t iterations = 1);

    /// Iterations that may run in all, given how many are done.
    using Granted = std::function<std::uint64_t(std::uint64_t done)>;
    /// Runs the plan for as long as more is granted; returns how many iterations ran. `granted` is called before the first and
    /// whenever more are done; what they wrote to `states_on_host` is there, to `get`. A launch never waits for the host:
    /// where all that was granted is done, it ends, and the next grant begins another. An iteration may be done that began
    /// while the grant was lowered. Throws as `run`, and what `granted` throws, behind the iteration that runs.
    std::uint64_t run_granted(const Granted& granted);

    /// Times of the last run, of a session that is traced.
    [[nodiscard]] Trace trace() const { return executor_->trace(); }

    /// What about the compiled program is slower than it need be, each in words.
    [[nodiscard]] std::vector<std::string> warnings() const { return executor_->warnings(); }

    /// Gives every state the value that it has in the program.
    void reset_state();

    [[nodiscard]] const Program& program() const { return *program_; }

private:
    [[nodiscard]] const Buffer& buffer(BufferId id) const { return program_->plan.graph.regions[id]; }
    void copy_in(BufferId id, const HostTensor& tensor);
    void require_inputs() const;

    std::shared_ptr<const Program> program_;
    std::unique_ptr<Executor> executor_;  ///< made first: it says best why a backend cannot be used
    std::unique_ptr<Memory> memory_;
    std::vector<std::shared_ptr<void>> storage_;  ///< by buffer
    Bindings bindings_;
    std::vector<bool> given_;    ///< by buffer: an input that has a value
    std::vector<bool> on_host_;  ///< by buffer
    bool has_run_ = false;
};

}  // namespace stretto
