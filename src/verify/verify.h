#pragma once

#include <string>
#include <vector>

#include "schedule/plan.h"

namespace stretto {

/// One broken promise of a plan.
struct Fault {
    enum class Kind : std::uint8_t {
        Malformed,      ///< an id, a range or a size outside its table; a task missing or scheduled twice
        Cycle,          ///< queue orders and waits form a cycle: some workers wait for each other forever
        Unreachable,    ///< a wait's target is above what its event can receive before the wait
        Race,           ///< two tasks touch the same bytes, one of them writes, and nothing orders them
        Uninitialized,  ///< a task reads arena bytes that no task ordered before it wrote
        OutOfBounds,    ///< a box outside its buffer, a buffer outside the arena
        DoubleWrite,    ///< two tasks of one region write the same bytes
        MissingWrite,   ///< an output byte has no writer
        Stream,    ///< a worker's loads differ from what its tasks consume in order, or a load exceeds a slot
        Capacity,  ///< shared memory, waits, signals or workers exceed the machine
        Dependency,  ///< a region order or `after` that disagrees with the boxes
    };
    Kind kind = Kind::Malformed;
    std::string
        message;  ///< what, where (both tasks, bytes, workers), as in the error style of CONTRIBUTING.md
};

[[nodiscard]] std::string_view name(Fault::Kind kind);

/// Proves a finished plan safe, from its boxes, queues, waits, signals, streams and offsets alone. Shares no
/// code with schedule or memory. Returns all faults (at most 64 of one kind); empty means proven. Requires:
/// nothing; any plan may be given.
[[nodiscard]] std::vector<Fault> verify(const Plan& plan);

}  // namespace stretto
