#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/expr.h"

namespace stretto {

/// An operand of an operation: a variable and its type.
struct Operand {
    std::string text;
    DType type = DType::F32;
};

/// What may be off by about 2^-18 of itself, in exchange for one or two instructions: of floats, nothing, exponentials, or
/// quotients, too.
enum class Quick : std::uint8_t { Nothing, Exponentials, Quotients };

/// The C++ expression of an arithmetic, comparison, logic, selection or conversion node, with the rounding of its
/// type. Throws InternalError for an
/// operation that its type does not have.
[[nodiscard]] std::string operation_text(const ExprNode& node, const std::vector<Operand>& operands,
                                         Quick quick = Quick::Nothing);

}  // namespace stretto
