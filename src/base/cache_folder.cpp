#include "base/cache_folder.h"

#include <cstdlib>

namespace stretto {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

}  // namespace

std::string cache_folder() {
    if (const std::string chosen = variable("STRETTO_CACHE_DIR"); !chosen.empty()) return chosen;
    if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/stretto";
    if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/stretto";
    return {};
}

}  // namespace stretto
