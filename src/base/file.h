#pragma once

#include <string>
#include <string_view>

namespace stretto {

/// The bytes of a file. Throws UserError naming it where it cannot be read.
[[nodiscard]] std::string read_file(const std::string& path);

/// Writes a file; it appears under `path` complete or not at all. Throws UserError where it cannot be written.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace stretto
