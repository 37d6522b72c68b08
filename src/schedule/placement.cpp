#include "schedule/placement.h"

#include <algorithm>
#include <tuple>

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

std::vector<std::int32_t> place_tasks(const TaskGraph& graph, const Machine& machine) {
    const auto workers = static_cast<std::size_t>(machine.workers);
    std::vector<double> free(workers, 0);
    std::vector<std::int64_t> streamed(workers, 0);
    std::vector<double> ends(graph.tasks.size(), 0);
    std::vector<std::int32_t> placed;
    std::vector<std::int64_t> dealt(workers, 0);
    const std::vector<bool> last =
        streams(graph.regions) ? last_tasks(graph) : std::vector<bool>(graph.tasks.size(), false);
    LatestEnd latest(ends);
    const WorkEstimate work(graph);
    for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
        const Task& task = graph.tasks[t];
        double ready = 0;
        for (Range range : task.after) ready = std::max(ready, latest.of(range) + machine.counter_us);
        std::size_t best = 0;
        const bool deal = last[t] && streamed_bytes(graph, task) == 0;
        const auto key = [&](std::size_t w) {
            return std::tuple(deal ? dealt[w] : 0, std::max(free[w], ready), streamed[w], w);
        };
        for (std::size_t w = 1; w < workers; ++w) {
            if (key(w) < key(best)) best = w;
        }
        free[best] = std::max(free[best], ready) +
                     duration(graph, TaskId(static_cast<std::int64_t>(t)), work, machine);
        ends[t] = free[best];
        streamed[best] += streamed_bytes(graph, task);
        dealt[best] += deal ? 1 : 0;
        placed.push_back(static_cast<std::int32_t>(best));
    }
    return placed;
}

}  // namespace stretto
