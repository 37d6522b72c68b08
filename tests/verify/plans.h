#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "schedule/plan.h"
#include "verify/verify.h"

namespace stretto {

/// Part of a one-dimensional buffer.
struct Part {
    std::string buffer;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool may = false;
};

/// Builds small plans by hand: F32 buffers of one dimension, element-wise regions. Tasks are queued in the order in
/// which they are added; neighbouring tasks of one name belong to one region.
class PlanBuilder {
public:
    explicit PlanBuilder(int workers);

    void buffer(const std::string& name, std::int64_t elements, BufferRole role = BufferRole::Arena);
    void tag(const std::string& name);  ///< the buffer travels as words
    TaskId task(const std::string& region, int worker, const std::vector<Part>& reads,
                const std::vector<Part>& writes);
    /// A streamed product of `rows` rows of `weight`, K elements each (BF16), from row `begin` on.
    TaskId product(const std::string& region, int worker, const std::string& weight, std::int64_t k,
                   Range rows);
    EventId event(const std::string& name);
    void signal(TaskId task, EventId event);
    void wait(TaskId task, EventId event, std::uint32_t target);
    /// An event of its own on which `to` waits for `from`.
    void hand_off(TaskId from, TaskId to);

    /// Arena buffers one after the other; event totals as the queues send them.
    [[nodiscard]] Plan finish() const;

private:
    [[nodiscard]] BufferId find(const std::string& name) const;
    [[nodiscard]] std::vector<Footprint> footprints(const std::vector<Part>& parts) const;
    TaskId add(const std::string& name, RegionBody body, int worker, Task task);

    Plan plan_;
    std::vector<std::pair<int, int>> places_;  ///< by task: worker, position
};

/// "kind: message" of every fault, one after the other, separated by newlines.
[[nodiscard]] std::string faults_of(const Plan& plan);

/// Was at least one fault of the kind found?
[[nodiscard]] bool has_fault(const Plan& plan, Fault::Kind kind);

}  // namespace stretto
