#include "schedule/urgency.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include "schedule/placement.h"

namespace stretto {
namespace {

/// A region as a whole.
struct Block {
    std::set<std::size_t> before;    ///< regions that its tasks come after
    std::vector<std::size_t> after;  ///< regions with tasks that come after its own
    double task_us = 0;              ///< its longest task
    double urgency = 0;  ///< from its start to the end of the longest chain behind it, in microseconds
};

std::size_t region_of(const TaskGraph& graph, Range tasks) {
    return graph.tasks[static_cast<std::size_t>(tasks.begin)].region.index();
}

std::vector<Block> blocks_of(const TaskGraph& graph, const Machine& machine) {
    std::vector<Block> blocks(graph.tasks_of.size());
    const WorkEstimate estimate(graph);
    for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
        const Task& task = graph.tasks[t];
        Block& block = blocks[task.region.index()];
        const TaskId id(static_cast<std::int64_t>(t));
        block.task_us = std::max(block.task_us, duration(graph, id, estimate, machine));
        for (Range range : task.after) block.before.insert(region_of(graph, range));
    }
    for (std::size_t r = blocks.size(); r-- > 0;) {
        Block& block = blocks[r];
        for (std::size_t next : block.after)
            block.urgency = std::max(block.urgency, blocks[next].urgency + machine.counter_us);
        const auto rounds = (graph.tasks_of[r].size() + machine.workers - 1) / machine.workers;
        block.urgency += static_cast<double>(rounds) * block.task_us;
        for (std::size_t before : block.before) blocks[before].after.push_back(r);
    }
    return blocks;
}

/// Plays the regions, each as soon as all before it are over, and returns the order in which they start.
class Play {
public:
    Play(const TaskGraph& graph, const Machine& machine)
        : graph_(graph), machine_(machine), blocks_(blocks_of(graph, machine)), ready_(blocks_.size(), 0) {
        for (std::int32_t w = 0; w < machine.workers; ++w) free_.push(0);
    }

    std::vector<std::size_t> run() {
        std::vector<std::size_t> open(blocks_.size());
        std::vector<std::size_t> candidates;
        for (std::size_t r = 0; r < blocks_.size(); ++r) {
            open[r] = blocks_[r].before.size();
            if (open[r] == 0) candidates.push_back(r);
        }
        std::vector<std::size_t> order;
        while (!candidates.empty()) {
            const auto first =
                std::min_element(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
                    return start(a) != start(b) ? start(a) < start(b)
                                                : blocks_[a].urgency > blocks_[b].urgency;
                });
            const std::size_t region = *first;
            candidates.erase(first);
            order.push_back(region);
            const double end = place(region);
            for (std::size_t next : blocks_[region].after) {
                ready_[next] = std::max(ready_[next], end + machine_.counter_us);
                if (--open[next] == 0) candidates.push_back(next);
            }
        }
        return order;
    }

private:
    [[nodiscard]] double start(std::size_t region) const { return std::max(ready_[region], free_.top()); }

    /// A map that nobody waits for runs in the gaps of others (placement.h).
    [[nodiscard]] bool is_filler(std::size_t region) const {
        return blocks_[region].after.empty() &&
               std::holds_alternative<MapRegion>(graph_.regions.regions[region].body);
    }

    /// Gives each task to the worker that is free first; returns when the last one ends.
    double place(std::size_t region) {
        if (is_filler(region)) return ready_[region] + blocks_[region].task_us;
        double last = 0;
        for (std::int64_t t = 0; t < graph_.tasks_of[region].size(); ++t) {
            const double end = start(region) + blocks_[region].task_us;
            free_.pop();
            free_.push(end);
            last = std::max(last, end);
        }
        return last;
    }

    const TaskGraph& graph_;
    const Machine& machine_;
    std::vector<Block> blocks_;
    std::vector<double> ready_;  ///< by region: when the last one before it is over
    std::priority_queue<double, std::vector<double>, std::greater<>> free_;  ///< by worker: since when
};

TaskGraph reordered(TaskGraph graph, const std::vector<std::size_t>& order) {
    TaskGraph result;
    result.regions.buffers = std::move(graph.regions.buffers);
    std::vector<std::int64_t> moved(order.size());  ///< by region: how far its task numbers move
    for (std::size_t r : order) {
        const Range tasks = graph.tasks_of[r];
        const auto first = static_cast<std::int64_t>(result.tasks.size());
        const RegionId id(static_cast<std::int64_t>(result.regions.regions.size()));
        moved[r] = first - tasks.begin;
        result.regions.regions.push_back(std::move(graph.regions.regions[r]));
        result.tasks_of.push_back({first, first + tasks.size()});
        for (std::int64_t t = tasks.begin; t < tasks.end; ++t) {
            Task& task = result.tasks.emplace_back(std::move(graph.tasks[static_cast<std::size_t>(t)]));
            for (Range& range : task.after) {
                const std::int64_t by = moved[region_of(graph, range)];
                range = {range.begin + by, range.end + by};
            }
            task.region = id;
        }
    }
    return result;
}

}  // namespace

TaskGraph by_urgency(TaskGraph graph, const Machine& machine) {
    if (streams(graph.regions)) return graph;
    const std::vector<std::size_t> order = Play(graph, machine).run();
    return reordered(std::move(graph), order);
}

}  // namespace stretto
