#pragma once

#include <string>
#include <string_view>

#include "schedule/plan.h"
#include "tile/text.h"

namespace stretto {

// The text form of a plan: where it runs, the tasks' form, then events, edges, workers and, once buffers are placed,
// the arena.
//
//   plan "h200"
//   shared 6 slots of 24576 scratch 8192 warps 8
//   buffer ...  region ...  tasks ...  task ...
//   event e0 = counter 9 "attn#4"
//   edge r0 r1 counter
//   worker w0 {
//       step t0 waits e0>=9 e1>=1 signals e2
//       load t0 b0 0..1152 rows 8 apart 1152 x4 every 9216
//   }
//   arena 8192 { b2 at 0  b3 at 4096 }
//
// A load names the bytes of its first row; "rows 8 apart 1152" says that there are 8 rows, each starting 1152 bytes after
// the one before. "x4 every 9216" stands for four loads of one task and buffer, each starting 9216 bytes after the one
// before.

[[nodiscard]] std::string to_text(const Plan& plan);

/// Throws UserError. Reads back exactly what `to_text` wrote; ids, targets and sizes are not judged (verify does).
[[nodiscard]] Plan parse_plan(std::string_view text);

}  // namespace stretto
