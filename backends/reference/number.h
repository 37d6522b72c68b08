#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/rounding.h"

namespace stretto {

/// The type in which a value is computed on the CPU: F32 for the floats up to F32, F64 for F64, I64 for the rest.
enum class Domain : std::uint8_t { F32, F64, I64 };

[[nodiscard]] inline Domain domain_of(DType type) {
    if (type == DType::F64) return Domain::F64;
    return is_float(type) ? Domain::F32 : Domain::I64;
}

/// `value` as the narrow type would keep it; other types keep it as it is.
[[nodiscard]] inline float rounded_lane(float value, DType type) {
    if (type == DType::BF16) return bf16_to_f32(f32_to_bf16(value));
    if (type == DType::F16) return f16_to_f32(f32_to_f16(value));
    return value;
}

/// `value` as the integer type would keep it: wrapped, or 0/1 for Bool.
[[nodiscard]] inline std::int64_t rounded_lane(std::int64_t value, DType type) {
    if (type == DType::Bool) return value != 0 ? 1 : 0;
    if (type == DType::U8) return static_cast<std::uint8_t>(value);
    if (type == DType::I32) return static_cast<std::int32_t>(value);
    return value;
}

/// Calls `use` with a default value of the C++ type that stores elements of `type`.
template <class Use>
decltype(auto) with_storage(DType type, Use&& use) {
    switch (type) {
        case DType::Bool:
        case DType::U8:
            return use(std::uint8_t{});
        case DType::I32:
            return use(std::int32_t{});
        case DType::I64:
            return use(std::int64_t{});
        case DType::F16:
        case DType::BF16:
            return use(std::uint16_t{});
        case DType::F32:
            return use(float{});
        case DType::F64:
            break;
    }
    return use(double{});
}

}  // namespace stretto
