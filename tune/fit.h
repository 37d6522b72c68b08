#pragma once

#include <optional>
#include <string_view>

#include "base/machine.h"
#include "schedule/plan.h"

namespace stretto {

/// A number of a machine file that a difference of times shows.
struct Quantity {
    std::string_view field;  ///< its name in the file
    std::string_view unit;
    double Machine::*member;
    bool is_rate = false;  ///< more of it makes a launch shorter
};

/// The value of `quantity` for which the simulator, with `machine` for the rest, predicts that `more` takes
/// `difference_us` longer than `less`; nothing where no value does. What both plans share (the launch, the meeting of
/// the workers, an equal number of tasks) drops out, whether the simulator knows of it or not.
/// Requires: both plans verify, and the prediction never falls when the quantity gets worse.
[[nodiscard]] std::optional<double> fitted(const Quantity& quantity, const Plan& more, const Plan& less,
                                           const Machine& machine, double difference_us);

}  // namespace stretto
