#pragma once

#include <vector>

#include "schedule/plan.h"

namespace stretto {

/// By task: the tasks that write words which it reads, and before which it cannot end.
[[nodiscard]] std::vector<std::vector<TaskId>> word_writers(const Plan& plan);

}  // namespace stretto
