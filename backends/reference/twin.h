#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/reference/lanes.h"
#include "tile/task.h"

namespace stretto {

/// The CPU twin of one region's task kind: it defines the result of a task, with its order of sums.
class Twin {
public:
    virtual ~Twin() = default;
    virtual void run(const Task& task, Buffers buffers, Workspace& workspace) const = 0;
};

// One per task kind. `consumer_warps` is the machine's: sums are cut by it.
[[nodiscard]] std::unique_ptr<Twin> make_twin(const MapRegion& region);
[[nodiscard]] std::unique_ptr<Twin> make_twin(const ReduceRegion& region, std::int32_t consumer_warps);
[[nodiscard]] std::unique_ptr<Twin> make_twin(const RegionGraph& graph, const MatMulRegion& region,
                                              std::int32_t consumer_warps);
[[nodiscard]] std::unique_ptr<Twin> make_twin(const AttentionRegion& region, std::int32_t consumer_warps);
[[nodiscard]] std::unique_ptr<Twin> make_twin(const ScoredRegion& region);

/// The twins of all regions of a program. Regions must outlive it; `run` may be called from several threads, each with
/// its own workspace.
class Twins {
public:
    Twins(const RegionGraph& regions, std::int32_t consumer_warps);

    void run(const Task& task, Buffers buffers, Workspace& workspace) const {
        twins_.at(task.region.index())->run(task, buffers, workspace);
    }

private:
    std::vector<std::unique_ptr<Twin>> twins_;
};

}  // namespace stretto
