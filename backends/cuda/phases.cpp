#include "backends/cuda/phases.h"

#include <algorithm>
#include <map>

#include "backends/cuda/items.h"

namespace stretto::cuda {
namespace {

/// Where a buffer lies in the arena; empty for others.
Range place_of(const Plan& plan, std::size_t buffer) {
    const std::int64_t offset = plan.offsets.at(buffer);
    if (offset < 0) return {};
    return {offset, offset + plan.graph.regions.buffers[buffer].size_bytes()};
}

bool share_bytes(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }

/// By region: the length of the longest chain of regions that it must come after, because it depends on them or because
/// it writes where they had their buffers.
class Depths {
public:
    explicit Depths(const Plan& plan) : plan_(plan), depth_(plan.graph.regions.regions.size(), 0) {}

    std::vector<std::size_t> run() {
        for (std::size_t region = 0; region < depth_.size(); ++region) {
            follow_dependencies(region);
            follow_memory(region);
            for (const Use& use : uses(plan_.graph.regions.regions[region])) {
                users_[static_cast<std::size_t>(use.access->source)].push_back(region);
            }
        }
        return std::move(depth_);
    }

private:
    void come_after(std::size_t region, std::size_t earlier) {
        depth_[region] = std::max(depth_[region], depth_[earlier] + 1);
    }

    void follow_dependencies(std::size_t region) {
        const Range tasks = plan_.graph.tasks_of[region];
        for (std::int64_t task = tasks.begin; task < tasks.end; ++task) {
            for (const Range& range : plan_.graph[TaskId(task)].after) {
                for (std::int64_t t = range.begin; t < range.end;) {
                    const RegionId before = plan_.graph[TaskId(t)].region;
                    come_after(region, before.index());
                    t = plan_.graph.tasks_of[before.index()].end;
                }
            }
        }
    }

    void follow_memory(std::size_t region) {
        for (const Use& use : uses(plan_.graph.regions.regions[region])) {
            if (!use.write) continue;
            const auto written = static_cast<std::size_t>(use.access->source);
            for (const auto& [buffer, regions] : users_) {
                if (buffer == written || !share_bytes(place_of(plan_, buffer), place_of(plan_, written)))
                    continue;
                for (const std::size_t earlier : regions) come_after(region, earlier);
            }
        }
    }

    const Plan& plan_;
    std::vector<std::size_t> depth_;
    std::map<std::size_t, std::vector<std::size_t>>
        users_;  ///< by buffer: the regions before this one that use it
};

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
    const std::vector<std::size_t> depth = Depths(plan).run();
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
