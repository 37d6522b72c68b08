#include "backends/reference/word_writers.h"

namespace stretto {

std::vector<std::vector<TaskId>> word_writers(const Plan& plan) {
    struct Write {
        TaskId task;
        const Box* box;
    };
    const std::vector<Task>& tasks = plan.graph.tasks;
    std::vector<std::vector<Write>> writes(plan.graph.regions.buffers.size());
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        for (const Footprint& write : tasks[t].writes) {
            if (!plan.graph.regions[write.buffer].tagged) continue;
            writes[write.buffer.index()].push_back({TaskId(static_cast<std::int64_t>(t)), &write.box});
        }
    }
    std::vector<std::vector<TaskId>> writers(tasks.size());
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        for (const Footprint& read : tasks[t].reads) {
            for (const Write& write : writes[read.buffer.index()]) {
                if (intersects(read.box, *write.box)) writers[t].push_back(write.task);
            }
        }
    }
    return writers;
}

}  // namespace stretto
