#pragma once

#include "tile/task.h"

namespace stretto {

/// What one task costs whatever the machine.
struct Work {
    double operations = 0;         ///< scalar F32 operations
    double tensor_operations = 0;  ///< of products in tiles
    double direct_bytes = 0;       ///< read outside the ring
};

/// Estimates the work of the tasks of one graph.
class WorkEstimate {
public:
    explicit WorkEstimate(const TaskGraph& graph);

    [[nodiscard]] Work of(TaskId task) const;

private:
    const TaskGraph& graph_;
    std::vector<double> nodes_;  ///< by region: expression nodes evaluated for one point
};

}  // namespace stretto
