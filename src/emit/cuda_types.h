#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "fuse/region.h"

namespace stretto {

/// The type in which an operation is computed.
enum class Domain : std::uint8_t { I64, F32, F64 };

[[nodiscard]] Domain domain_of(DType type);
[[nodiscard]] std::string cuda_name(Domain domain);

/// Element of a buffer (device/stretto/types.h).
[[nodiscard]] std::string element_name(DType type);

/// The type by which a buffer's elements lie in memory: an element, or a word with one.
[[nodiscard]] std::string memory_name(const Buffer& buffer);
/// Variable that holds an element in an expression: narrow floats are held in float.
[[nodiscard]] std::string value_name(DType type);

/// Type in which elements are summed.
[[nodiscard]] DType accumulator_type(DType element);

/// Exact, whatever the locale.
[[nodiscard]] std::string literal(double value, DType type);
[[nodiscard]] std::string literal(std::int64_t value, DType type);

/// `text`, of C++ type `from` (a value_name), converted to a variable of `type` with its rounding.
[[nodiscard]] std::string converted(const std::string& text, DType from, DType type);

}  // namespace stretto
