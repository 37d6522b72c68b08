#pragma once

#include "import/schema.h"

namespace stretto {

/// Is the call a run-time check of the traced program, without results?
[[nodiscard]] bool is_assertion(const schema::Node& node);

/// Throws one UserError that lists every operation of the program that no table lowers, with how often and where it
/// is used and the nearest name that is supported.
void reject_unsupported(const schema::Program& program);

}  // namespace stretto
