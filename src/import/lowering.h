#pragma once

#include <string_view>

#include "import/call.h"

namespace stretto {

/// "aten.mul" of "aten.mul.Tensor": overloads differ in types only, which arguments carry themselves.
[[nodiscard]] std::string_view base_name(std::string_view op);

/// The meaning of an operation with or without its overload; nullptr where no table has it.
[[nodiscard]] const Lowering* find_lowering(std::string_view op);

}  // namespace stretto
