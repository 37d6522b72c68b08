#include "verify/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/error.h"

namespace stretto::verifying {
namespace {

void raise_to(std::vector<std::int32_t>& row, const std::vector<std::int32_t>& other) {
    for (std::size_t w = 0; w < row.size(); ++w) row[w] = std::max(row[w], other[w]);
}

}  // namespace

Order::Order(const Plan& plan)
    : plan_(plan),
      words_(plan),
      workers_(static_cast<std::int32_t>(plan.workers.size())),
      places_(plan.graph.tasks.size()),
      signallers_(plan.events.size()),
      progress_(plan.workers.size(), 0),
      row_(plan.graph.tasks.size(), -1) {
    for (std::size_t w = 0; w < plan.workers.size(); ++w) {
        const auto& queue = plan.workers[w].queue;
        for (std::size_t p = 0; p < queue.size(); ++p) {
            places_[queue[p].task.index()] = {static_cast<std::int32_t>(w), static_cast<std::int32_t>(p)};
            for (EventId event : queue[p].signals) signallers_[event.index()].push_back(queue[p].task);
        }
    }
    const std::vector<TaskId> played = play();
    // Where fewer signals are awaited than arrive, a signaller played later may still count; its clock is
    // known only after a pass. Clocks only fall from pass to pass, so this ends.
    while (derive(played)) {
    }
}

/// Runs the plan as far as it goes. Counters only grow and words stay written, so what can run never depends on choices
/// made on the way. A set of words counts as an event with one signal from each of its writers.
std::vector<TaskId> Order::play() {
    std::vector<TaskId> played;
    const std::size_t counted = plan_.events.size() + words_.sets();
    std::vector<std::uint32_t> arrived(counted, 0);
    std::vector<std::vector<std::pair<std::uint32_t, std::size_t>>> waiting(counted);
    std::vector<std::size_t> unmet(plan_.workers.size(), 0);
    std::deque<std::size_t> ready;
    const auto wait_for = [&](std::size_t event, std::uint32_t target, std::size_t w) {
        if (arrived[event] >= target) return;
        waiting[event].emplace_back(target, w);
        ++unmet[w];
    };
    const auto arrive_at_step = [&](std::size_t w) {
        const auto& queue = plan_.workers[w].queue;
        if (progress_[w] == queue.size()) return;
        const Step& step = queue[progress_[w]];
        for (const Wait& wait : step.waits) wait_for(wait.event.index(), wait.target, w);
        for (std::size_t set : words_.read_by(step.task)) {
            wait_for(plan_.events.size() + set, static_cast<std::uint32_t>(words_.writers(set).size()), w);
        }
        if (unmet[w] == 0) ready.push_back(w);
    };
    const auto arrive = [&](std::size_t event) {
        const std::uint32_t count = ++arrived[event];
        std::erase_if(waiting[event], [&](const auto& waiter) {
            if (waiter.first > count) return false;
            if (--unmet[waiter.second] == 0) ready.push_back(waiter.second);
            return true;
        });
    };
    for (std::size_t w = 0; w < plan_.workers.size(); ++w) arrive_at_step(w);
    while (!ready.empty()) {
        const std::size_t w = ready.front();
        ready.pop_front();
        const Step& step = plan_.workers[w].queue[progress_[w]++];
        played.push_back(step.task);
        for (EventId event : step.signals) arrive(event.index());
        for (std::size_t set : words_.written_by(step.task)) arrive(plan_.events.size() + set);
        arrive_at_step(w);
    }
    return played;
}

Order::Row Order::after_completion(TaskId task) const {
    const auto start = rows_.begin() + static_cast<std::ptrdiff_t>(row_start(task));
    Row row(start, start + workers_);
    const Place at = place(task);
    row[static_cast<std::size_t>(at.worker)] = at.position + 1;
    return row;
}

/// Along each worker, the target-th smallest over the signallers; those without a clock yet count as
/// infinity.
Order::Row Order::required_by_wait(const Wait& wait) const {
    std::vector<Row> arrivals;
    for (TaskId signaller : signallers_[wait.event.index()]) {
        if (starts(signaller)) arrivals.push_back(after_completion(signaller));
    }
    Row row(static_cast<std::size_t>(workers_), 0);
    if (wait.target == 0) return row;
    ensure(arrivals.size() >= wait.target, "verify: a wait passed before its signals");
    if (arrivals.size() == wait.target) {
        for (const Row& arrival : arrivals) raise_to(row, arrival);
        return row;
    }
    std::vector<std::int32_t> column(arrivals.size());
    for (std::size_t w = 0; w < row.size(); ++w) {
        for (std::size_t i = 0; i < arrivals.size(); ++i) column[i] = arrivals[i][w];
        std::nth_element(column.begin(), column.begin() + (wait.target - 1), column.end());
        row[w] = column[wait.target - 1];
    }
    return row;
}

/// One pass over the tasks in the order played. Returns whether another pass may lower a clock.
bool Order::derive(const std::vector<TaskId>& played) {
    const bool first = rows_.empty();
    bool partial = false;
    bool changed = false;
    std::map<std::pair<EventId, std::uint32_t>, Row> by_wait;
    std::vector<Row> current(plan_.workers.size(), Row(static_cast<std::size_t>(workers_), 0));
    std::vector<std::int32_t> current_row(plan_.workers.size(), -1);
    for (TaskId task : played) {
        const auto w = static_cast<std::size_t>(place(task).worker);
        const Step& step = plan_.workers[w].queue[static_cast<std::size_t>(place(task).position)];
        for (const Wait& wait : step.waits) {
            partial |= wait.target < signallers_[wait.event.index()].size();
            const auto [found, added] = by_wait.try_emplace({wait.event, wait.target});
            if (added) found->second = required_by_wait(wait);
            raise_to(current[w], found->second);
        }
        if (first && (!step.waits.empty() || current_row[w] < 0)) {
            current_row[w] = static_cast<std::int32_t>(rows_.size() / static_cast<std::size_t>(workers_));
            rows_.insert(rows_.end(), current[w].begin(), current[w].end());
            row_[task.index()] = current_row[w];
        } else if (first) {
            row_[task.index()] = current_row[w];
        } else {
            const auto stored = rows_.begin() + static_cast<std::ptrdiff_t>(row_start(task));
            changed |= !std::equal(current[w].begin(), current[w].end(), stored);
            std::copy(current[w].begin(), current[w].end(), stored);
        }
    }
    return first ? partial : changed;
}

void Order::lower_to_required(std::vector<std::int32_t>& least, TaskId task) const {
    const Place at = place(task);
    const std::int32_t* row = rows_.data() + row_start(task);
    const std::int32_t own = std::min(least[static_cast<std::size_t>(at.worker)], at.position);
    for (std::size_t w = 0; w < least.size(); ++w) least[w] = std::min(least[w], row[w]);
    least[static_cast<std::size_t>(at.worker)] = own;
}

bool Order::completes() const {
    return std::all_of(row_.begin(), row_.end(), [](std::int32_t row) { return row >= 0; });
}

std::string Order::describe(TaskId task) const {
    return fmt::format("{} on worker {}", task_name(plan_, task), place(task).worker);
}

}  // namespace stretto::verifying
