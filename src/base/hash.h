#pragma once

#include <string>
#include <string_view>

namespace stretto {

/// 32 hexadecimal digits (XXH3, 128 bits) that name `content` in caches and in provenance. Not cryptographic: it
/// tells accidents apart, not attacks.
[[nodiscard]] std::string content_hash(std::string_view content);

}  // namespace stretto
