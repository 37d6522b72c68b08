#pragma once

#include <string>

namespace stretto {

/// Where results that can be found again are kept between runs: $STRETTO_CACHE_DIR, else stretto in $XDG_CACHE_HOME or
/// ~/.cache. Empty where none of these is known. It may not exist yet.
[[nodiscard]] std::string cache_folder();

}  // namespace stretto
