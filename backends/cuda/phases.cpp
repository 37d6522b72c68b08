#include "backends/cuda/phases.h"

#include <algorithm>
#include <cstring>

namespace stretto::cuda {
namespace {

template <class T>
std::vector<T> items_of(const std::vector<std::byte>& bytes) {
    std::vector<T> items(bytes.size() / sizeof(T));
    if (!items.empty()) std::memcpy(items.data(), bytes.data(), bytes.size());
    return items;
}

/// By region: the length of the longest chain of regions that it depends on.
std::vector<std::size_t> depths(const TaskGraph& graph) {
    std::vector<std::size_t> depth(graph.regions.regions.size(), 0);
    for (const Task& task : graph.tasks) {
        std::size_t& own = depth[task.region.index()];
        for (const Range& range : task.after) {
            for (std::int64_t t = range.begin; t < range.end;) {
                const RegionId before = graph[TaskId(t)].region;
                own = std::max(own, depth[before.index()] + 1);
                t = graph.tasks_of[before.index()].end;
            }
        }
    }
    return depth;
}

/// A record with its loads, in the worker's order.
struct Piece {
    std::size_t phase = 0;
    std::size_t record = 0;
    Range loads;
};

std::vector<Piece> pieces_of(const Plan& plan, const Worker& worker, const abi::WorkerRange& range,
                             const std::vector<std::size_t>& depth) {
    std::vector<Piece> pieces;
    std::size_t load = 0;
    for (std::size_t i = 0; i < worker.queue.size(); ++i) {
        const TaskId task = worker.queue[i].task;
        const std::size_t first = load;
        while (load < worker.stream.size() && worker.stream[load].task == task) ++load;
        pieces.push_back({depth[plan.graph[task].region.index()],
                          range.first_record + i,
                          {static_cast<std::int64_t>(range.first_load + first),
                           static_cast<std::int64_t>(range.first_load + load)}});
    }
    return pieces;
}

}  // namespace

Phases phases(const Plan& plan, const Emission& emission) {
    const auto records = items_of<abi::Record>(emission.records);
    const auto loads = items_of<abi::Load>(emission.loads);
    const auto workers = items_of<abi::WorkerRange>(emission.workers);
    const std::vector<std::size_t> depth = depths(plan.graph);
    std::vector<std::vector<Piece>> pieces;
    for (std::size_t w = 0; w < workers.size(); ++w) {
        pieces.push_back(pieces_of(plan, plan.workers[w], workers[w], depth));
    }
    Phases out;
    for (const std::size_t each : depth) out.count = std::max(out.count, each + 1);
    for (std::size_t phase = 0; phase < out.count; ++phase) {
        for (const std::vector<Piece>& of_worker : pieces) {
            abi::WorkerRange range{static_cast<abi::U32>(out.records.size()), 0,
                                   static_cast<abi::U32>(out.loads.size()), 0};
            for (const Piece& piece : of_worker) {
                if (piece.phase != phase) continue;
                abi::Record record = records[piece.record];
                record.wait_count = 0;
                record.signal_count = 0;
                out.records.push_back(record);
                out.loads.insert(out.loads.end(), loads.begin() + piece.loads.begin,
                                 loads.begin() + piece.loads.end);
            }
            range.record_count = static_cast<abi::U32>(out.records.size()) - range.first_record;
            range.load_count = static_cast<abi::U32>(out.loads.size()) - range.first_load;
            out.workers.push_back(range);
        }
    }
    return out;
}

}  // namespace stretto::cuda
