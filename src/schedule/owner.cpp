#include "schedule/owner.h"

#include <fmt/format.h>

#include <set>

#include "base/error.h"

namespace stretto {

StopWorkers stop_workers(const Plan& plan) {
    StopWorkers found;
    std::set<BufferId> written_twice;
    for (std::size_t worker = 0; worker < plan.workers.size(); ++worker) {
        for (const Step& step : plan.workers[worker].queue) {
            for (const Footprint& write : plan.graph[step.task].writes) {
                const Buffer& buffer = plan.graph.regions[write.buffer];
                if (buffer.role != BufferRole::State || buffer.dtype != DType::Bool) continue;
                if (volume(buffer.shape) != 1) continue;
                const bool is_first = found.emplace(write.buffer, static_cast<std::uint32_t>(worker)).second;
                if (!is_first) written_twice.insert(write.buffer);
            }
        }
    }
    for (BufferId buffer : written_twice) found.erase(buffer);
    return found;
}

std::uint32_t stop_worker(const StopWorkers& workers, BufferId stop) {
    const auto found = workers.find(stop);
    if (found != workers.end()) return found->second;
    throw UserError(fmt::format(
        "buffer {} cannot end a launch: that takes a bool state of one element that exactly one task writes",
        stop.value));
}

}  // namespace stretto
