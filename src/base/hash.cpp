#include "base/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stretto {

std::string content_hash(std::string_view content) {
    const XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace stretto
