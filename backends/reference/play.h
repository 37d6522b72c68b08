#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/plan.h"

namespace stretto {

/// One launch of a plan, seen from outside: how far every worker is, and what every event has received.
/// Requires: every id in the plan's queues, waits and signals is inside its table.
class Play {
public:
    /// By task: the tasks whose words it needs.
    using Writers = std::vector<std::vector<TaskId>>;

    /// A task starts when its counters allow it and the words that it reads are there; without `writers` tasks do not
    /// wait for words.
    explicit Play(const Plan& plan, const Writers* writers = nullptr)
        : plan_(plan),
          writers_(writers),
          position_(plan.workers.size(), 0),
          received_(plan.events.size(), 0),
          done_(plan.graph.tasks.size(), false) {}

    [[nodiscard]] std::size_t workers() const { return position_.size(); }
    [[nodiscard]] bool finished(std::size_t worker) const {
        return position_[worker] == plan_.workers[worker].queue.size();
    }
    [[nodiscard]] const Step& next(std::size_t worker) const {
        return plan_.workers[worker].queue[position_[worker]];
    }
    /// May the worker's next task start?
    [[nodiscard]] bool ready(std::size_t worker) const;
    /// The worker's next task is done: its signals arrive.
    void complete(std::size_t worker);

    /// For a state in which no worker is ready: which worker waits with which task for which event.
    [[nodiscard]] std::string blocked() const;

private:
    /// A task whose words the task still needs; invalid where there is none.
    [[nodiscard]] TaskId missing_writer(TaskId task) const;

    const Plan& plan_;
    const Writers* writers_;
    std::vector<std::size_t> position_;
    std::vector<std::uint32_t> received_;
    std::vector<bool> done_;  ///< by task
};

/// "#412 layers.3.mlp.down"
[[nodiscard]] std::string task_name(const Plan& plan, TaskId task);

}  // namespace stretto
