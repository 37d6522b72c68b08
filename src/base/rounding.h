#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace stretto {

// Conversions between F32 and the narrow floats, round to nearest even (IEEE 754-2019, 4.3.1). Inline, because the CPU
// backends convert whole tensors with them.

[[nodiscard]] inline std::uint16_t f32_to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (x != x) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

[[nodiscard]] inline float bf16_to_f32(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

[[nodiscard]] inline std::uint16_t f32_to_f16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
    if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
    if (magnitude < 0x38800000U) {
        // Subnormal: adding 0.5 in F32 leaves the rounded 10-bit result in the low mantissa bits.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
    }
    const std::uint32_t even = (magnitude >> 13) & 1U;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + even) >> 13));
}

[[nodiscard]] inline float f16_to_f32(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1FU;
    const std::uint32_t mantissa = bits & 0x3FFU;
    if (exponent == 0) {
        const float value = static_cast<float>(mantissa) * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    const std::uint32_t biased = exponent == 31 ? 255U : exponent + 112U;
    return std::bit_cast<float>(sign | (biased << 23) | (mantissa << 13));
}

/// Toward zero; saturates, and NaN gives 0 (a plain cast would be undefined there).
[[nodiscard]] inline std::int64_t truncated(double value) {
    if (!(value > -0x1p63)) return value == value ? INT64_MIN : 0;
    return value < 0x1p63 ? static_cast<std::int64_t>(value) : INT64_MAX;
}

/// The value of `type` nearest to `x`, as a double. Integers are truncated(x), of which shorter ones keep the low bits;
/// Bool is x != 0.
[[nodiscard]] double rounded(double x, DType type);

}  // namespace stretto
