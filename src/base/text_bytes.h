#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

// How strings and raw bytes are spelled in text forms. The readers return nothing where the spelling is wrong.

void append_escaped(std::string& out, std::string_view text);
[[nodiscard]] std::optional<std::string> unescaped(std::string_view text);

void append_hex(std::string& out, const std::vector<std::byte>& bytes);
[[nodiscard]] std::optional<std::vector<std::byte>> bytes_of_hex(std::string_view digits);

/// RFC 4648, with padding.
void append_base64(std::string& out, const std::vector<std::byte>& bytes);
[[nodiscard]] std::optional<std::vector<std::byte>> bytes_of_base64(std::string_view digits);

}  // namespace stretto
