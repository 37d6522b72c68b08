#pragma once

#include "tile/task.h"

namespace stretto {

/// Fills `after` of every task from the boxes of reads and writes: read after write, write after read, write after
/// write. A range may name more tasks of a region than conflict, never fewer.
void find_dependencies(TaskGraph& graph);

}  // namespace stretto
