#pragma once

#include <cstdint>

namespace stretto {

/// Threads that a GPU steps together.
inline constexpr std::int64_t kLanesOfWarp = 32;

}  // namespace stretto
