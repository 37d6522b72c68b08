#include "verify/streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "fuse/left_shares.h"
#include "fuse/product_kind.h"

namespace stretto::verifying {
namespace {

using Kind = Fault::Kind;

class StreamCheck {
public:
    StreamCheck(const Plan& plan, FaultList& faults)
        : plan_(plan), faults_(faults), written_(plan.graph.regions.buffers.size(), false) {
        for (const Task& task : plan.graph.tasks) {
            for (const Footprint& write : task.writes) written_[write.buffer.index()] = true;
        }
    }

    void run() {
        for (const Region& region : plan_.graph.regions.regions) ring_fits(region);
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
            compare(w);
            slots_hold(w);
        }
    }

private:
    static const MatMulRegion* streamed(const Region& region) {
        const auto* matmul = std::get_if<MatMulRegion>(&region.body);
        return matmul != nullptr && matmul->streamed ? matmul : nullptr;
    }

    /// The consumers free a group's slots only when they have used all of its weights.
    void ring_fits(const Region& region) {
        const MatMulRegion* matmul = streamed(region);
        if (matmul == nullptr) return;
        const auto weights = static_cast<std::int64_t>(matmul->weights.size());
        if (plan_.shared.slots < weights) {
            faults_.add(Kind::Stream,
                        fmt::format("the ring starves '{}': it needs {} slots at once, and the ring has {}",
                                    region.name, weights, plan_.shared.slots));
        }
        for (const Access& weight : matmul->weights) {
            if (!written_[static_cast<std::size_t>(weight.source)]) continue;
            faults_.add(Kind::Stream,
                        fmt::format("'{}' streams '{}', which this launch writes: a loader waits for nothing",
                                    region.name, plan_.graph.regions[BufferId(weight.source)].name));
        }
    }

    /// The rows of a panel lie in a slot as tensor cores read them without bank conflicts.
    void slots_hold(std::size_t w) {
        const std::vector<Load>& stream = plan_.workers[w].stream;
        for (std::size_t i = 0; i < stream.size(); ++i) {
            const Load& load = stream[i];
            const std::int64_t slot = plan_.shared.slot_bytes;
            const bool is_panel = load.rows >= 1 && load.rows <= abi::kPanelRows;
            const bool inside = is_panel && load.row_bytes >= 0 && load.row_bytes <= slot &&
                                abi::panel_bytes(load.rows, load.row_bytes) <= slot;
            if (inside) continue;
            faults_.add(Kind::Stream, fmt::format("load {} of worker {} exceeds a ring slot of {} bytes: {}",
                                                  i, w, plan_.shared.slot_bytes, describe(load)));
            return;
        }
    }

    void compare(std::size_t w) {
        std::vector<Load> expected;
        for (const Step& step : plan_.workers[w].queue) append_loads(step.task, expected);
        const std::vector<Load>& found = plan_.workers[w].stream;
        const auto [want, have] = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
        if (want == expected.end() && have == found.end()) return;
        faults_.add(
            Kind::Stream,
            fmt::format(
                "load {} of worker {} differs from what its tasks consume\n  found   {}\n  needed  {}",
                have - found.begin(), w, have == found.end() ? "no more loads" : describe(*have),
                want == expected.end() ? "no more loads" : describe(*want)));
    }

    void append_loads(TaskId id, std::vector<Load>& loads) const {
        const Task& task = plan_.graph[id];
        const MatMulRegion* matmul = streamed(plan_.graph.regions[task.region]);
        if (matmul == nullptr) return;
        const bool panels = product_kind(*matmul) == abi::ProductKind::Panels;
        const std::int64_t depth = matmul->space[3];
        const std::int64_t width = panels ? abi::panel_piece(depth, plan_.shared.warps) : depth;
        const std::int64_t height = panels ? abi::kPanelRows : rows_per_load(*matmul);
        const std::int64_t staged = staged_depth(*matmul, plan_.shared.warps);
        for (std::int64_t b = task.tile[0].begin; b < task.tile[0].end; ++b) {
            for (std::int64_t first = 0; first < depth; first += staged) {
                const Range part{first, std::min(first + staged, depth)};
                for (std::int64_t n = task.tile[2].begin; n < task.tile[2].end; n += height) {
                    const std::int64_t rows = std::min(height, task.tile[2].end - n);
                    for (std::int64_t k = part.begin; k < part.end; k += width) {
                        for (const Access& weight : matmul->weights) {
                            loads.push_back(load_of(id, weight, {b, 0, n, k}, rows,
                                                    std::min(width, part.end - k), panels));
                        }
                    }
                }
            }
        }
    }

    /// The load of `rows` rows of `width` elements from coordinate `at` on. Whole rows of a weight are one run of bytes.
    static Load load_of(TaskId id, const Access& weight, const std::vector<std::int64_t>& at,
                        std::int64_t rows, std::int64_t width, bool apart) {
        const auto size = static_cast<std::int64_t>(size_of(weight.type));
        const std::int64_t first = offset_of(weight.map, at).value_or(-1) * size;
        const BufferId buffer(weight.source);
        if (!apart) return {id, buffer, first, rows * width * size};
        if (rows == 1) return {id, buffer, first, width * size};
        const std::int64_t next = offset_of(weight.map, {at[0], at[1], at[2] + 1, at[3]}).value_or(-1) * size;
        return {id, buffer, first, width * size, rows, next - first};
    }

    std::string describe(const Load& load) const {
        const auto& buffers = plan_.graph.regions.buffers;
        const bool known = load.buffer.valid() && load.buffer.index() < buffers.size();
        const bool task = load.task.valid() && load.task.index() < plan_.graph.tasks.size();
        const std::string more =
            load.rows == 1 && load.row_stride == 0
                ? ""
                : fmt::format(" and {} rows more, {} bytes apart,", load.rows - 1, load.row_stride);
        return fmt::format("bytes [{}, {}){} of {} for {}", load.offset, load.offset + load.row_bytes, more,
                           known ? "'" + buffers[load.buffer.index()].name + "'" : "an unknown buffer",
                           task ? task_name(plan_, load.task) : "an unknown task");
    }

    const Plan& plan_;
    FaultList& faults_;
    std::vector<bool> written_;  ///< by buffer
};

}  // namespace

void check_streams(const Plan& plan, FaultList& faults) { StreamCheck(plan, faults).run(); }

}  // namespace stretto::verifying
