#include "schedule/loads.h"

#include <algorithm>

#include "fuse/left_shares.h"
#include "fuse/product_kind.h"

namespace stretto {
namespace {

/// Bytes of row `row` of a weight before its column `k`, from the start of the buffer.
std::int64_t place(const MatMulRegion& matmul, const Access& weight, std::int64_t row, std::int64_t k) {
    return (weight.map.offset + row * matmul.space[3] + k) * static_cast<std::int64_t>(size_of(weight.type));
}

/// The left side comes in parts; all panels pass a part before the next one.
void append_panels(const MatMulRegion& matmul, TaskId id, Range columns, std::int32_t warps,
                   std::vector<Load>& stream) {
    const std::int64_t depth = matmul.space[3];
    const std::int64_t piece = abi::panel_piece(depth, warps);
    const std::int64_t part = staged_depth(matmul, warps);
    for (std::int64_t first = 0; first < depth; first += part) {
        for (std::int64_t n = columns.begin; n < columns.end; n += abi::kPanelRows) {
            const std::int64_t rows = std::min<std::int64_t>(abi::kPanelRows, columns.end - n);
            for (std::int64_t k = first; k < std::min(first + part, depth); k += piece) {
                for (const Access& weight : matmul.weights) {
                    const auto size = static_cast<std::int64_t>(size_of(weight.type));
                    stream.push_back({id, BufferId(weight.source), place(matmul, weight, n, k),
                                      std::min(piece, depth - k) * size, rows, rows > 1 ? depth * size : 0});
                }
            }
        }
    }
}

/// Rows that follow one another in memory are one run of bytes.
void append_rows(const MatMulRegion& matmul, TaskId id, Range columns, std::vector<Load>& stream) {
    const std::int64_t group = rows_per_load(matmul);
    for (std::int64_t n = columns.begin; n < columns.end; n += group) {
        const std::int64_t rows = std::min(group, columns.end - n);
        for (const Access& weight : matmul.weights) {
            stream.push_back({id, BufferId(weight.source), place(matmul, weight, n, 0),
                              place(matmul, weight, n + rows, 0) - place(matmul, weight, n, 0)});
        }
    }
}

}  // namespace

void append_loads(const TaskGraph& graph, TaskId id, std::int32_t warps, std::vector<Load>& stream) {
    const Task& task = graph[id];
    const MatMulRegion* matmul = streamed_product(graph.regions[task.region].body);
    if (matmul == nullptr) return;
    if (product_kind(*matmul) == abi::ProductKind::Panels) {
        append_panels(*matmul, id, task.tile[2], warps, stream);
    } else {
        append_rows(*matmul, id, task.tile[2], stream);
    }
}

std::int64_t slot_bytes(const Load& load) { return abi::panel_bytes(load.rows, load.row_bytes); }

bool can_pack(BufferRole role, std::int64_t rows) {
    return rows >= abi::kPanelRows - 1 && (role == BufferRole::Parameter || role == BufferRole::Constant);
}

std::int64_t packed_bytes(const Plan& plan) {
    std::int64_t bytes = 0;
    for (const Worker& worker : plan.workers) {
        for (const Load& load : worker.stream) {
            if (!can_pack(plan.graph.regions[load.buffer].role, load.rows)) continue;
            bytes += abi::packed_bytes(load.rows, load.row_bytes);
        }
    }
    return bytes;
}

}  // namespace stretto
