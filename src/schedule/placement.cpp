#include "schedule/placement.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "fuse/product_kind.h"

namespace stretto {
namespace {

/// Latest end of the tasks in a range; ranges repeat from task to task, so the last answers are kept.
class LatestEnd {
public:
    explicit LatestEnd(const std::vector<double>& ends) : ends_(ends) {}

    double of(Range tasks) {
        for (const auto& [known, end] : recent_) {
            if (known == tasks) return end;
        }
        const auto first = ends_.begin() + tasks.begin;
        const double end = *std::max_element(first, ends_.begin() + tasks.end);
        if (recent_.size() >= 8) recent_.erase(recent_.begin());
        recent_.emplace_back(tasks, end);
        return end;
    }

private:
    const std::vector<double>& ends_;
    std::vector<std::pair<Range, double>> recent_;
};

/// By task: does nobody wait for it?
std::vector<bool> last_tasks(const TaskGraph& graph) {
    std::vector<bool> last(graph.tasks.size(), true);
    for (const Task& task : graph.tasks) {
        for (Range range : task.after) std::fill(last.begin() + range.begin, last.begin() + range.end, false);
    }
    return last;
}

}  // namespace

bool streams(const RegionGraph& graph) {
    std::int64_t products = 0, streamed = 0;
    for (const Region& region : graph.regions) {
        products += static_cast<std::int64_t>(std::holds_alternative<MatMulRegion>(region.body));
        streamed += static_cast<std::int64_t>(streamed_product(region.body) != nullptr);
    }
    return streamed > 0 && 2 * streamed >= products;
}

std::int64_t streamed_bytes(const TaskGraph& graph, const Task& task) {
    const MatMulRegion* matmul = streamed_product(graph.regions[task.region].body);
    if (matmul == nullptr) return 0;
    const auto row = matmul->space[3] * static_cast<std::int64_t>(size_of(matmul->weights.front().type));
    return row * task.tile[2].size() * static_cast<std::int64_t>(matmul->weights.size());
}

double duration(const TaskGraph& graph, TaskId task, const WorkEstimate& estimate, const Machine& machine) {
    const Work work = estimate.of(task);
    const double bytes = static_cast<double>(streamed_bytes(graph, graph[task])) + work.direct_bytes;
    return machine.task_us + bytes * machine.workers / machine.bandwidth + work.operations / machine.flops +
           work.tensor_operations / machine.tensor_flops;
}

namespace {

class Placer {
public:
    Placer(const TaskGraph& graph, const Machine& machine)
        : graph_(graph), machine_(machine), work_(graph), ends_(graph.tasks.size(), 0), latest_(ends_) {
        workers_.resize(static_cast<std::size_t>(machine.workers));
    }

    std::vector<std::vector<TaskId>> run() {
        const bool streaming = streams(graph_.regions);
        const std::vector<bool> last = last_tasks(graph_);
        std::vector<TaskId> fillers;
        for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
            const TaskId task(static_cast<std::int64_t>(t));
            if (!streaming && last[t] && is_map(task)) {
                fillers.push_back(task);
            } else {
                place(task, streaming && last[t]);
            }
        }
        const double end = ends_.empty() ? 0 : *std::max_element(ends_.begin(), ends_.end());
        for (Worker& worker : workers_) worker.gaps.push_back({worker.free, end, INT64_MAX});
        for (TaskId task : fillers) fill(task);
        return queues();
    }

private:
    struct Slot {
        TaskId task;
        double start = 0;
        double end = 0;
    };
    struct Gap {
        double begin = 0;
        double end = 0;
        std::int64_t next = INT64_MAX;  ///< number of the task behind it
    };
    struct Worker {
        std::vector<Slot> slots;
        std::vector<Gap> gaps;  ///< between slots, in order; at last from the end of its tasks to that of all
        double free = 0;        ///< end of its last task
        std::int64_t streamed = 0;
        std::int64_t dealt = 0;  ///< tasks that nobody waits for; of fillers, those of one region
    };

    [[nodiscard]] bool is_map(TaskId task) const {
        return std::holds_alternative<MapRegion>(graph_.regions[graph_[task].region].body);
    }

    double ready(TaskId task) {
        double time = 0;
        for (Range range : graph_[task].after) time = std::max(time, latest_.of(range) + machine_.counter_us);
        return time;
    }

    void place(TaskId task, bool nobody_waits) {
        const double start = ready(task);
        const std::int64_t bytes = streamed_bytes(graph_, graph_[task]);
        const bool deal = nobody_waits && bytes == 0;
        const auto key = [&](const Worker& worker) {
            return std::tuple(deal ? worker.dealt : 0, std::max(worker.free, start), worker.streamed);
        };
        Worker& best = *std::min_element(workers_.begin(), workers_.end(),
                                         [&](const Worker& a, const Worker& b) { return key(a) < key(b); });
        if (start > best.free + machine_.task_us) best.gaps.push_back({best.free, start, task.value});
        run_on(best, task, std::max(best.free, start));
        best.free = ends_[task.index()];
        best.streamed += bytes;
        best.dealt += deal ? 1 : 0;
    }

    void run_on(Worker& worker, TaskId task, double start) {
        const double end = start + duration(graph_, task, work_, machine_);
        worker.slots.push_back({task, start, end});
        ends_[task.index()] = end;
    }

    /// Tasks of one filler go to different workers, as far as their gaps hold one: first to those that wait longest, which
    /// leaves alone the few that run a chain of short tasks. Where no gap holds the task, behind all others of a worker. Never
    /// before a task of a smaller number: for a barrier, what is before a region's first task is what came before the region.
    void fill(TaskId task) {
        const std::size_t region = graph_[task].region.index();
        if (std::exchange(filling_, region) != region) {
            for (Worker& worker : workers_) worker.dealt = 0;
        }
        const double earliest = ready(task);
        const double length = duration(graph_, task, work_, machine_);
        const auto room = [&](const Gap& gap) { return gap.end - std::max(gap.begin, earliest) - length; };
        Worker* best = nullptr;
        Gap* best_gap = nullptr;
        for (Worker& worker : workers_) {
            const auto gap = std::find_if(worker.gaps.begin(), worker.gaps.end(), [&](const Gap& each) {
                return each.next > task.value && room(each) >= 0;
            });
            if (gap == worker.gaps.end()) continue;
            if (best != nullptr &&
                std::pair(worker.dealt, -room(*gap)) >= std::pair(best->dealt, -room(*best_gap))) {
                continue;
            }
            best = &worker;
            best_gap = &*gap;
        }
        if (best == nullptr) {
            const auto start = [&](const Worker& worker) {
                return std::max(worker.gaps.back().begin, earliest);
            };
            best = &*std::min_element(workers_.begin(), workers_.end(),
                                      [&](const Worker& a, const Worker& b) { return start(a) < start(b); });
            best_gap = &best->gaps.back();
        }
        run_on(*best, task, std::max(best_gap->begin, earliest));
        best_gap->begin = ends_[task.index()];
        ++best->dealt;
    }

    std::vector<std::vector<TaskId>> queues() {
        std::vector<std::vector<TaskId>> queues;
        for (Worker& worker : workers_) {
            std::stable_sort(worker.slots.begin(), worker.slots.end(),
                             [](const Slot& a, const Slot& b) { return a.start < b.start; });
            std::vector<TaskId>& queue = queues.emplace_back();
            for (const Slot& slot : worker.slots) queue.push_back(slot.task);
        }
        return queues;
    }

    const TaskGraph& graph_;
    const Machine& machine_;
    const WorkEstimate work_;
    std::vector<double> ends_;  ///< by task
    LatestEnd latest_;
    std::vector<Worker> workers_;
    std::size_t filling_ = SIZE_MAX;  ///< region of the fillers that are being placed
};

}  // namespace

std::vector<std::vector<TaskId>> place_tasks(const TaskGraph& graph, const Machine& machine) {
    return Placer(graph, machine).run();
}

}  // namespace stretto
