#pragma once

#include <cstdint>

namespace stretto {

/// a / b, toward plus infinity. b is positive.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

}  // namespace stretto
