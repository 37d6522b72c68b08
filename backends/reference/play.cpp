#include "backends/reference/play.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto {

bool Play::ready(std::size_t worker) const {
    if (finished(worker)) return false;
    const std::vector<Wait>& waits = next(worker).waits;
    return std::all_of(waits.begin(), waits.end(),
                       [&](const Wait& wait) { return received_[wait.event.index()] >= wait.target; }) &&
           !missing_writer(next(worker).task).valid();
}

TaskId Play::missing_writer(TaskId task) const {
    if (writers_ == nullptr) return {};
    for (TaskId writer : (*writers_)[task.index()]) {
        if (!done_[writer.index()]) return writer;
    }
    return {};
}

void Play::complete(std::size_t worker) {
    for (EventId event : next(worker).signals) ++received_[event.index()];
    done_[next(worker).task.index()] = true;
    ++position_[worker];
}

std::string Play::blocked() const {
    std::string text;
    for (std::size_t worker = 0; worker < workers(); ++worker) {
        if (finished(worker)) continue;
        for (const Wait& wait : next(worker).waits) {
            const std::uint32_t seen = received_[wait.event.index()];
            if (seen >= wait.target) continue;
            text += fmt::format("\n  worker {} with task {} waits for event {} {}: {} of {} signals", worker,
                                task_name(plan_, next(worker).task), wait.event.value,
                                plan_.events[wait.event.index()].name, seen, wait.target);
        }
        const TaskId writer = missing_writer(next(worker).task);
        if (!writer.valid()) continue;
        text += fmt::format("\n  worker {} with task {} waits for words of task {}", worker,
                            task_name(plan_, next(worker).task), task_name(plan_, writer));
    }
    return text;
}

std::string task_name(const Plan& plan, TaskId task) {
    return fmt::format("#{} {}", task.value, plan.graph.regions[plan.graph[task].region].name);
}

}  // namespace stretto
