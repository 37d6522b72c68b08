#pragma once

#include <cstdint>
#include <vector>

#include "backends/reference/lanes.h"
#include "schedule/plan.h"

namespace stretto {

/// Watches the tasks of one launch: every element that a task touches lies in its boxes, and what it reads of the arena
/// and of outputs was last written in this launch as the same buffer. Throws RunError otherwise.
class Watch final : public MemoryGuard {
public:
    explicit Watch(const Plan& plan);

    /// The following reads and writes are those of `task` on `worker`.
    void begin(TaskId task, std::size_t worker);

    void read(BufferId buffer, std::int64_t first, std::int64_t stride, std::int64_t count) override;
    void write(BufferId buffer, std::int64_t first, std::int64_t stride, std::int64_t count) override;

private:
    void check_bounds(const char* verb, BufferId buffer, std::int64_t first, std::int64_t last) const;
    void check_boxes(const char* verb, const std::vector<Footprint>& boxes, BufferId buffer,
                     std::int64_t first, std::int64_t stride, std::int64_t count) const;
    [[noreturn]] void fail(const char* verb, BufferId buffer, std::int64_t element, const char* why) const;
    [[nodiscard]] std::int32_t* writers(BufferId buffer);

    const Plan& plan_;
    TaskId task_;
    std::size_t worker_ = 0;
    std::vector<std::int32_t> arena_;  ///< by byte: the buffer as which it was written last, or -1
    std::vector<std::vector<std::int32_t>> outputs_;  ///< by buffer, by byte: likewise; empty for other roles
};

}  // namespace stretto
