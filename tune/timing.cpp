#include "tune/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace stretto {

double timed_us(const Launch& launch, std::uint32_t iterations) {
    const auto start = std::chrono::steady_clock::now();
    launch(iterations);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

std::uint32_t iterations_for(const Launch& launch, const TimingSettings& settings) {
    launch(1);
    if (settings.most_iterations < 2) return 1;
    const std::uint32_t several = std::min<std::uint32_t>(8, settings.most_iterations);
    const double one = timed_us(launch, 1);
    const double each = (timed_us(launch, several) - one) / (several - 1);
    const double enough = std::ceil(settings.launch_us / std::max(each, 1e-3));
    return static_cast<std::uint32_t>(std::min<double>(enough, settings.most_iterations));
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace stretto
