#pragma once

#include <string>

#include "base/machine.h"
#include "schedule/plan.h"

namespace stretto {

/// A machine of round numbers: 100 bytes/us, one operation/us.
[[nodiscard]] Machine plain_machine();

/// Builds plans whose tasks cost what a test asks for.
class CostPlan {
public:
    explicit CostPlan(int workers, std::int64_t slots = 2);

    /// A task that computes for `operations` us on plain_machine.
    TaskId compute(int worker, std::int64_t operations);
    /// A streamed product that needs one load of 200 bytes (2 us of the whole bus) for each of `rows` rows.
    TaskId product(int worker, std::int64_t rows);
    void hand_off(TaskId from, TaskId to, HandOff kind = HandOff::Counter);

    Plan plan;

private:
    TaskId add(int worker, RegionBody body, Task task);
    Step& step(TaskId task);
};

}  // namespace stretto
