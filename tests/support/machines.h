#pragma once

#include "base/machine.h"

namespace stretto {

/// The H200, but for how many workers it has.
inline Machine h200_of(std::int32_t workers) {
    Machine machine = builtin_machine("h200");
    machine.workers = workers;
    return machine;
}

}  // namespace stretto
