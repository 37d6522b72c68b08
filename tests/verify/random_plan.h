#pragma once

#include "verify/mutants.h"

namespace stretto {

/// A correct plan of random regions: several tasks a region on random workers, one counter a region, arena offsets
/// reused where the exhaustive judge allows it, streamed products between.
[[nodiscard]] Plan random_correct_plan(Random& random);

}  // namespace stretto
