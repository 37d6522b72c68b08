#include "tune/fit.h"

#include "cost/simulate.h"

namespace stretto {
namespace {

constexpr double kPrecision = 1e-3;  ///< relative, far below what repeated measurements agree on
constexpr double kLeastCost = 1e-12;
constexpr double kMostCost = 1e9;

}  // namespace

std::optional<double> fitted(const Quantity& quantity, const Plan& more, const Plan& less,
                             const Machine& machine, double difference_us) {
    const auto value = [&](double cost) { return quantity.is_rate ? 1 / cost : cost; };
    const auto predicted = [&](double cost) {
        Machine changed = machine;
        changed.*quantity.member = value(cost);
        return simulate(more, changed).total - simulate(less, changed).total;
    };
    const double now = machine.*quantity.member;
    double high = std::max(quantity.is_rate ? 1 / now : now, kLeastCost);
    double low = kLeastCost;
    while (predicted(high) < difference_us) {
        low = high;
        high *= 2;
        if (high > kMostCost) return std::nullopt;
    }
    while (low == kLeastCost && predicted(high / 2) >= difference_us) {
        high /= 2;
        if (high < kLeastCost) return std::nullopt;
    }
    if (low == kLeastCost) low = high / 2;
    while (high - low > kPrecision * high) {
        const double middle = (low + high) / 2;
        (predicted(middle) < difference_us ? low : high) = middle;
    }
    return value(high);
}

}  // namespace stretto
