#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "backends/backends.h"
#include "backends/cases.h"

namespace stretto {

using Run = std::tuple<Case, Backend>;

/// Every case on every backend that can run it.
[[nodiscard]] std::vector<Run> runs_of(const std::vector<Case>& cases, const std::vector<Backend>& backends);

[[nodiscard]] std::string run_name(const testing::TestParamInfo<Run>& run);

}  // namespace stretto
