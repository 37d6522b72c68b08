#pragma once

#include <string>
#include <vector>

namespace stretto {

/// Parts of the compiler that can be left out, to measure what they are worth.
struct Features {
    bool stream =
        true;  ///< weights run ahead through the ring; else the tasks read them, without tensor cores
    bool words = true;  ///< small activations travel as epoch-tagged words; else all by counters
};

/// All but those named "stream" or "words". Throws UserError on any other name.
[[nodiscard]] Features features_without(const std::vector<std::string>& names);

}  // namespace stretto
