#pragma once

#include <vector>

#include "schedule/plan.h"

namespace stretto::verifying {

/// Which tasks' words every task waits for while it runs. A set is the words of one box of one tagged buffer; a task
/// that reads the box cannot end before all writers of its elements have stored them. Reads may be over-approximated:
/// a task then seems to wait for more than it does, which hides no deadlock.
class WordWaits {
public:
    /// Requires: the plan's tables are sound.
    explicit WordWaits(const Plan& plan);

    [[nodiscard]] std::size_t sets() const { return writers_.size(); }
    /// Tasks that write elements of a set, each once.
    [[nodiscard]] const std::vector<TaskId>& writers(std::size_t set) const { return writers_[set]; }
    [[nodiscard]] BufferId buffer(std::size_t set) const { return buffers_[set]; }
    [[nodiscard]] const std::vector<std::size_t>& read_by(TaskId task) const { return read_[task.index()]; }
    [[nodiscard]] const std::vector<std::size_t>& written_by(TaskId task) const {
        return written_[task.index()];
    }

private:
    std::vector<BufferId> buffers_;                  ///< by set
    std::vector<std::vector<TaskId>> writers_;       ///< by set
    std::vector<std::vector<std::size_t>> read_;     ///< by task: sets
    std::vector<std::vector<std::size_t>> written_;  ///< by task: sets
};

}  // namespace stretto::verifying
