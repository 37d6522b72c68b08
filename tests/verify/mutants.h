#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "schedule/plan.h"

namespace stretto {

using Random = std::mt19937;

/// A way to break a plan. `apply` returns nothing where the plan has no place for it.
struct Mutation {
    std::string name;
    bool only_stream = false;  ///< changes loads alone, which the judge does not look at
    std::optional<Plan> (*apply)(Plan plan, Random& random) = nullptr;
};

[[nodiscard]] const std::vector<Mutation>& mutations();

}  // namespace stretto
