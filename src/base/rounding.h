#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace stretto {

// Conversions between F32 and the narrow floats, round to nearest even (IEEE 754-2019, 4.3.1).
[[nodiscard]] std::uint16_t f32_to_bf16(float x);
[[nodiscard]] float bf16_to_f32(std::uint16_t bits);
[[nodiscard]] std::uint16_t f32_to_f16(float x);
[[nodiscard]] float f16_to_f32(std::uint16_t bits);

/// The value of `type` nearest to `x`, as a double. Integers truncate toward zero; Bool is x != 0.
[[nodiscard]] double rounded(double x, DType type);

}  // namespace stretto
