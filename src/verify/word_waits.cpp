#include "verify/word_waits.h"

#include <algorithm>
#include <map>

#include "verify/boxes.h"

namespace stretto::verifying {
namespace {

/// How the tasks of a plan touch one tagged buffer.
struct Traffic {
    std::vector<std::pair<Box, std::vector<TaskId>>> reads;  ///< each box once
    std::map<std::vector<std::int64_t>, std::size_t> place;  ///< of a box in `reads`
    std::vector<const Box*> writes;
    std::vector<TaskId> writers;
};

std::vector<std::int64_t> ends_of(const Box& box) {
    std::vector<std::int64_t> ends;
    for (Range range : box) {
        ends.push_back(range.begin);
        ends.push_back(range.end);
    }
    return ends;
}

void add_read(Traffic& traffic, TaskId task, const Box& box) {
    const auto [found, added] = traffic.place.try_emplace(ends_of(box), traffic.reads.size());
    if (added) traffic.reads.push_back({box, {}});
    traffic.reads[found->second].second.push_back(task);
}

std::map<BufferId, Traffic> traffic_of(const Plan& plan) {
    std::map<BufferId, Traffic> all;
    for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t) {
        const TaskId id(static_cast<std::int64_t>(t));
        const auto is_words = [&](const Footprint& print) {
            return plan.graph.regions[print.buffer].tagged && !is_empty(print.box);
        };
        for (const Footprint& read : plan.graph.tasks[t].reads) {
            if (is_words(read)) add_read(all[read.buffer], id, read.box);
        }
        for (const Footprint& write : plan.graph.tasks[t].writes) {
            if (!is_words(write)) continue;
            all[write.buffer].writes.push_back(&write.box);
            all[write.buffer].writers.push_back(id);
        }
    }
    return all;
}

}  // namespace

WordWaits::WordWaits(const Plan& plan) : read_(plan.graph.tasks.size()), written_(plan.graph.tasks.size()) {
    for (const auto& [buffer, traffic] : traffic_of(plan)) {
        const std::size_t first = writers_.size();
        std::vector<const Box*> boxes;
        for (const auto& [box, tasks] : traffic.reads) {
            for (TaskId task : tasks) {
                auto& sets = read_[task.index()];
                if (sets.empty() || sets.back() != writers_.size()) sets.push_back(writers_.size());
            }
            boxes.push_back(&box);
            buffers_.push_back(buffer);
            writers_.emplace_back();
        }
        for_each_intersection(boxes, traffic.writes, [&](std::size_t i, std::size_t j) {
            writers_[first + i].push_back(traffic.writers[j]);
        });
    }
    for (std::size_t set = 0; set < writers_.size(); ++set) {
        auto& tasks = writers_[set];
        std::sort(tasks.begin(), tasks.end());
        tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
        for (TaskId task : tasks) written_[task.index()].push_back(set);
    }
}

}  // namespace stretto::verifying
