#pragma once

#include <memory>

#include "runtime/backend.h"
#include "tune/probe.h"
#include "tune/timing.h"

namespace stretto {

/// A program with random values in all its parameters and inputs.
class FilledProgram {
public:
    FilledProgram(Compiled compiled, const Machine& machine, Backend backend);

    void launch(std::uint32_t iterations);

private:
    Program program_;
    std::unique_ptr<Executor> executor_;
    std::unique_ptr<Memory> memory_;
    std::vector<std::shared_ptr<void>> storage_;
    Bindings bindings_;
};

/// Times programs on a backend: both in turns, and the median difference of neighbouring launches, so that a machine that
/// slows down, or is disturbed for a while, changes both alike or one pair only.
[[nodiscard]] Clock launch_clock(Backend backend, const TimingSettings& settings = {});

/// The base with what the backend's device says about itself: architecture, workers, shared memory.
/// Throws UserError where there is no such device.
[[nodiscard]] Machine machine_here(Machine base, Backend backend);

}  // namespace stretto
