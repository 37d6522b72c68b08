#include "profile/critical_path.h"

#include <algorithm>

namespace stretto {
namespace {

class PathFinder {
public:
    PathFinder(const Plan& plan, const Trace& trace)
        : plan_(plan), trace_(trace), worker_of_(trace.tasks.size(), 0), queued_after_(trace.tasks.size()) {
        for (std::size_t w = 0; w < plan.workers.size(); ++w) {
            TaskId before;
            for (const Step& step : plan.workers[w].queue) {
                worker_of_[step.task.index()] = w;
                queued_after_[step.task.index()] = before;
                before = step.task;
            }
        }
    }

    /// From the first task to the last.
    [[nodiscard]] std::vector<TaskId> chain() const {
        std::vector<TaskId> tasks;
        for (TaskId task = last(); task.valid(); task = before(task)) tasks.push_back(task);
        std::reverse(tasks.begin(), tasks.end());
        return tasks;
    }

    [[nodiscard]] std::size_t worker_of(TaskId task) const { return worker_of_[task.index()]; }

private:
    [[nodiscard]] const TaskTimes& times(TaskId task) const { return trace_.tasks[task.index()]; }

    [[nodiscard]] TaskId last() const {
        TaskId last;
        for (const Worker& worker : plan_.workers) {
            for (const Step& step : worker.queue) {
                if (!last.valid() || times(step.task).published > times(last).published) last = step.task;
            }
        }
        return last;
    }

    [[nodiscard]] TaskId before(TaskId task) const {
        TaskId latest;
        for (const Range& range : plan_.graph[task].after) {
            for (std::int64_t t = range.begin; t < range.end; ++t) {
                const TaskId other(t);
                if (!latest.valid() || times(other).published > times(latest).published) latest = other;
            }
        }
        const bool waited = latest.valid() && times(latest).published > times(task).begun;
        return waited ? latest : queued_after_[task.index()];
    }

    const Plan& plan_;
    const Trace& trace_;
    std::vector<std::size_t> worker_of_;
    std::vector<TaskId> queued_after_;  ///< by task: the one before it on its worker
};

}  // namespace

std::vector<Hop> critical_path(const Plan& plan, const Trace& trace, const Simulation& simulation) {
    const PathFinder finder(plan, trace);
    const std::vector<TaskId> chain = finder.chain();
    std::vector<Hop> hops;
    double start = 0;
    double simulated_start = 0;
    for (std::size_t i = 0; i < chain.size(); ++i) {
        const TaskTimes& times = trace.tasks[chain[i].index()];
        Hop hop;
        hop.task = chain[i];
        hop.worker = finder.worker_of(chain[i]);
        hop.handed_over = i > 0 && hops.back().worker != hop.worker;
        double end = times.published;
        if (i + 1 < chain.size()) {
            // Signals leave one after the other: the successor may see its own before all are sent.
            end = std::min(end, std::max(trace.tasks[chain[i + 1].index()].ready, times.computed));
        }
        end = std::max(end, start);
        const double ready = std::clamp(times.ready, start, end);
        const double staged = std::clamp(times.staged, ready, end);
        const double computed = std::clamp(times.computed, staged, end);
        hop.wait = ready - start;
        hop.stage = staged - ready;
        hop.compute = computed - staged;
        hop.stalled = std::min(times.stalled, hop.compute);
        hop.publish = end - computed;
        const double simulated_end = simulation.tasks[chain[i].index()].end;
        hop.simulated = simulated_end - simulated_start;
        hops.push_back(hop);
        start = end;
        simulated_start = simulated_end;
    }
    return hops;
}

}  // namespace stretto
