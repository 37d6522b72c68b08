#pragma once

#include <memory>

#include "runtime/backend.h"
#include "tune/probe.h"

namespace stretto {

/// How long programs are timed.
struct ClockSettings {
    double launch_us = 10'000;  ///< a launch repeats its plan until it takes about this long
    int rounds = 9;             ///< launches of each program, in turns
};

/// A program with random values in all its parameters and inputs, timed as a whole.
class TimedProgram {
public:
    TimedProgram(Compiled compiled, const Machine& machine, Backend backend);

    /// Microseconds of one launch, from the call until it is done.
    double launch(std::uint32_t iterations);
    /// Iterations that a launch needs to take about so long. Runs some.
    std::uint32_t iterations_for(double launch_us);

private:
    Program program_;
    std::unique_ptr<Executor> executor_;
    std::unique_ptr<Memory> memory_;
    std::vector<std::shared_ptr<void>> storage_;
    Bindings bindings_;
};

/// Times programs on a backend: both in turns, and the median difference of neighbouring launches, so that a machine that
/// slows down, or is disturbed for a while, changes both alike or one pair only.
[[nodiscard]] Clock launch_clock(Backend backend, const ClockSettings& settings = {});

/// The base with what the backend's device says about itself: architecture, workers, shared memory.
/// Throws UserError where there is no such device.
[[nodiscard]] Machine machine_here(Machine base, Backend backend);

}  // namespace stretto
