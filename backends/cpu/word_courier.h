#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backends/reference/lanes.h"
#include "schedule/plan.h"

namespace stretto {

/// Carries words between one worker's tasks and the tagged buffers, with the order that the device gives them: each
/// word is one relaxed atomic and shows nothing but itself. Tasks do not see words: `receive` waits for those that
/// a task reads and copies their values into plain memory of this worker, `publish` stores what the task wrote there.
class WordCourier {
public:
    /// `arena` is the plan's; its tagged buffers must be zero before the first launch.
    WordCourier(const Plan& plan, std::byte* arena);

    /// Calls `wait(polls)` between looks at a word that is missing; it says whether to look again. Returns the buffer
    /// whose word did not come, if one did not.
    [[nodiscard]] std::optional<BufferId> receive(const Task& task, std::uint32_t tag,
                                                  const std::function<bool(int polls)>& wait);

    /// `bases` with the task's tagged buffers replaced by this worker's copies; valid until the next `receive`.
    [[nodiscard]] Buffers bases(std::span<std::byte* const> bases);

    void publish(const Task& task, std::uint32_t tag);

private:
    [[nodiscard]] bool tagged(BufferId buffer) const { return plan_.graph.regions[buffer].tagged; }
    void make_room(const Task& task);

    const Plan& plan_;
    std::byte* arena_;
    std::vector<std::byte> memory_;     ///< of the copies
    std::vector<std::int64_t> places_;  ///< by buffer: where its copy is in `memory_`; -1 where it has none
    std::vector<std::byte*> bases_;
};

}  // namespace stretto
