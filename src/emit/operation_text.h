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
/// type. `quick`: exponentials and quotients of floats may be off by about 2^-18 of themselves. Throws InternalError for an
/// operation that its type does not have.
[[nodiscard]] std::string operation_text(const ExprNode& node, const std::vector<Operand>& operands,
                                         bool quick = false);

}  // namespace stretto
