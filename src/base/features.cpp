#include "base/features.h"

#include <fmt/format.h>

#include "base/error.h"

namespace stretto {

Features features_without(const std::vector<std::string>& names) {
    Features features;
    for (const std::string& name : names) {
        if (name == "stream") {
            features.stream = false;
        } else if (name == "words") {
            features.words = false;
        } else {
            throw UserError(fmt::format("nothing called '{}' can be left out; known: stream, words", name));
        }
    }
    return features;
}

}  // namespace stretto
