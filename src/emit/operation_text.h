#pragma once

#include <string>
#include <vector>

#include "graph/expr.h"

namespace stretto {

/// An operand of an operation: a variable and its type.
struct Operand {
    std::string text;
    DType type = DType::F32;
};

/// The C++ expression of an arithmetic, comparison, logic, selection or conversion node, with the rounding of its
/// type. Throws InternalError for an operation that its type does not have.
[[nodiscard]] std::string operation_text(const ExprNode& node, const std::vector<Operand>& operands);

}  // namespace stretto
