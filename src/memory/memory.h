#pragma once

#include "schedule/plan.h"

namespace stretto {

/// Gives every arena buffer an offset. Two buffers share bytes only where the plan orders every task that
/// touches the one before every task that touches the other; tagged buffers share with none, since a word must keep the
/// tag of the launch before until it is written. Requires: a scheduled plan.  Ensures: offsets
/// aligned to 256 bytes; arena_bytes covers them all. Why here: last, because only the finished plan says
/// what happens before what.
[[nodiscard]] Plan place_buffers(Plan plan);

}  // namespace stretto
