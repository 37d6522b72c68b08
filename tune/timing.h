#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace stretto {

/// How long programs are timed.
struct TimingSettings {
    double launch_us = 10'000;               ///< a launch repeats its plan until it takes about this long
    std::uint32_t most_iterations = 10'000;  ///< of one launch
    int rounds = 9;                          ///< launches of each program, in turns
};

/// Runs one launch of so many iterations and returns when it is done.
using Launch = std::function<void(std::uint32_t iterations)>;

/// Microseconds from the call of a launch until it is done.
[[nodiscard]] double timed_us(const Launch& launch, std::uint32_t iterations);

/// Iterations that a launch needs to take as long as the settings ask for. Runs some launches.
[[nodiscard]] std::uint32_t iterations_for(const Launch& launch, const TimingSettings& settings);

/// Requires: not empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace stretto
