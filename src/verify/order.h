#pragma once

#include <vector>

#include "verify/faults.h"
#include "verify/word_waits.h"

namespace stretto::verifying {

/// What surely happens before what, in every execution of a plan.
///
/// For a task t and a worker w, required(t, w) is the number of tasks of w's queue that must be complete
/// before t can start: a vector clock. A wait for `target` signals is passed once `target` of its signallers
/// are complete, so along w it requires the target-th smallest of what completing each signaller requires.
/// That is exact, also where fewer signals are awaited than arrive: a task a is complete before t in every
/// execution exactly if t cannot start while a is withheld.
///
/// Words order nothing here: a task may start before the words that it reads are written, and who has read a word has
/// not seen its writer's other stores. They only decide whether a plan blocks.
class Order {
public:
    struct Place {
        std::int32_t worker = -1;
        std::int32_t position = -1;
    };

    explicit Order(const Plan& plan);

    [[nodiscard]] Place place(TaskId task) const { return places_[task.index()]; }
    /// False for a task that never starts because the plan blocks.
    [[nodiscard]] bool starts(TaskId task) const { return row_[task.index()] >= 0; }
    [[nodiscard]] std::int32_t required(TaskId task, std::int32_t worker) const {
        const Place at = place(task);
        return worker == at.worker ? at.position : rows_[row_start(task) + static_cast<std::size_t>(worker)];
    }
    /// Is `a` complete before `b` starts, in every execution? Both must start.
    [[nodiscard]] bool before(TaskId a, TaskId b) const {
        const Place at = place(a);
        return required(b, at.worker) > at.position;
    }
    [[nodiscard]] std::int32_t workers() const { return workers_; }
    /// "#412 layers.3.mlp.down on worker 17"
    [[nodiscard]] std::string describe(TaskId task) const;

    [[nodiscard]] const WordWaits& words() const { return words_; }

    /// Lowers `least` to what each worker must have completed before the task starts.
    void lower_to_required(std::vector<std::int32_t>& least, TaskId task) const;

    /// Does every task run?
    [[nodiscard]] bool completes() const;

    /// For each worker, how many steps of its queue run before the plan blocks (all of them if it never
    /// does).
    [[nodiscard]] const std::vector<std::size_t>& progress() const { return progress_; }

private:
    using Row = std::vector<std::int32_t>;

    [[nodiscard]] std::size_t row_start(TaskId task) const {
        return static_cast<std::size_t>(row_[task.index()]) * static_cast<std::size_t>(workers_);
    }
    [[nodiscard]] std::vector<TaskId> play();
    bool derive(const std::vector<TaskId>& played);
    [[nodiscard]] Row required_by_wait(const Wait& wait) const;
    [[nodiscard]] Row after_completion(TaskId task) const;

    const Plan& plan_;
    WordWaits words_;
    std::int32_t workers_ = 0;
    std::vector<Place> places_;
    std::vector<std::vector<TaskId>> signallers_;  ///< by event, one entry a signal
    std::vector<std::size_t> progress_;
    std::vector<std::int32_t>
        row_;  ///< by task: its row of rows_; tasks of one queue without waits share one
    std::vector<std::int32_t> rows_;  ///< clocks, `workers_` numbers each
};

/// Reports waits that can never hold and workers that wait for each other.
void check_order(const Plan& plan, const Order& order, FaultList& faults);

}  // namespace stretto::verifying
