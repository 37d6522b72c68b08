#pragma once

#include <string>
#include <string_view>

#include "fuse/text.h"
#include "tile/task.h"

namespace stretto {

// The text form of tasks: the regions' form, then for each region the range of its tasks, then one line per task.
//
//   tasks r0 0..2
//   task t0 = r0 [0..1, 0..1, 0..32, 0..0] reads b0[0..1, 0..576] writes b2[0..32] after 3..5 7..8
//
// A footprint of a data-dependent store starts with "may".

[[nodiscard]] std::string to_text(const TaskGraph& graph);

/// Throws UserError. Reads back exactly what `to_text` wrote; ids and ranges are not judged.
[[nodiscard]] TaskGraph parse_task_graph(std::string_view text);

// Parts of larger text forms.
void write(Writer& out, const TaskGraph& graph);
[[nodiscard]] TaskGraph read_task_graph(Reader& in);

}  // namespace stretto
