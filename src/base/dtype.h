#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stretto {

/// Element types that tensors may have. Arithmetic inside an expression is done in F32 for F16/BF16/F32, in
/// F64 for F64, and in 64-bit integers for Bool and the integer types; the type of a node says how its result
/// rounds.
enum class DType : std::uint8_t { Bool, U8, I32, I64, F16, BF16, F32, F64 };

[[nodiscard]] std::size_t size_of(DType type);
[[nodiscard]] std::string_view name(DType type);
[[nodiscard]] DType parse_dtype(std::string_view name);  ///< Throws UserError on an unknown name.
[[nodiscard]] bool is_float(DType type);
[[nodiscard]] bool is_narrow_float(DType type);  ///< F16 or BF16.

}  // namespace stretto
