#pragma once

#include <map>
#include <string>

#include "import/import.h"
#include "import/schema.h"

namespace stretto {

/// Lowers a program that was read from a file or handed over in memory.
[[nodiscard]] Imported lower_program(const schema::Program& program,
                                     std::map<std::string, HostTensor> tensors);

}  // namespace stretto
