#pragma once

#include <vector>

#include "verify/order.h"

namespace stretto::verifying {

/// One task's use of one buffer.
struct Touch {
    TaskId task;
    const Footprint* print = nullptr;
};

/// The uses of one buffer by one region, reads or writes, with what the group as a whole requires and
/// finishes.
struct Group {
    RegionId region;
    bool write = false;
    std::vector<Touch> touches;
    std::vector<std::int32_t> last;  ///< by worker: steps of its queue up to the last task of the group
    std::vector<std::int32_t>
        least;  ///< by worker: steps surely complete before any task of the group starts
};

/// Uses of one buffer in region order; reads of a region come before its writes.
struct BufferUse {
    std::vector<Group> groups;
    bool written = false;
};

/// The uses of every buffer by tasks that start. Buffers that nobody writes have no groups: nothing can go
/// wrong.
[[nodiscard]] std::vector<BufferUse> collect_uses(const Plan& plan, const Order& order);

/// Is every task of `a` complete before any task of `b` starts?
[[nodiscard]] bool wholly_before(const Group& a, const Group& b);

/// Reports conflicting accesses of one buffer that the plan does not order as the regions are ordered, tasks of one
/// region that write the same bytes, and words that are written twice.
void check_races(const Plan& plan, const Order& order, const std::vector<BufferUse>& uses, FaultList& faults);

/// Reports buffers that share arena bytes while both are in use, and words that share bytes with anything.
void check_arena(const Plan& plan, const Order& order, const std::vector<BufferUse>& uses, FaultList& faults);

/// Reports reads of bytes that no earlier region wrote, and output bytes without a writer.
void check_coverage(const Plan& plan, const Order& order, const std::vector<BufferUse>& uses,
                    FaultList& faults);

}  // namespace stretto::verifying
