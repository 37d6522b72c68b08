#include "verify/streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) compare(w);
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
        if (rows_per_slot(*matmul, plan_.shared.slot_bytes) == 0) {
            faults_.add(Kind::Stream, fmt::format("a row of '{}' exceeds a ring slot of {} bytes",
                                                  region.name, plan_.shared.slot_bytes));
        }
        for (const Access& weight : matmul->weights) {
            if (!written_[static_cast<std::size_t>(weight.source)]) continue;
            faults_.add(Kind::Stream,
                        fmt::format("'{}' streams '{}', which this launch writes: a loader waits for nothing",
                                    region.name, plan_.graph.regions[BufferId(weight.source)].name));
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
        const std::int64_t rows = rows_per_slot(*matmul, plan_.shared.slot_bytes);
        if (rows == 0) return;
        const Range batches = task.tile[0];
        const Range columns = task.tile[2];
        for (std::int64_t b = batches.begin; b < batches.end; ++b) {
            for (std::int64_t n = columns.begin; n < columns.end; n += rows) {
                const std::int64_t count = std::min(rows, columns.end - n);
                for (const Access& weight : matmul->weights) {
                    const auto size = static_cast<std::int64_t>(size_of(weight.type));
                    const std::int64_t first = offset_of(weight.map, {b, 0, n, 0}).value_or(-1);
                    loads.push_back(
                        {id, BufferId(weight.source), first * size, count * matmul->space[3] * size});
                }
            }
        }
    }

    std::string describe(const Load& load) const {
        const auto& buffers = plan_.graph.regions.buffers;
        const bool known = load.buffer.valid() && load.buffer.index() < buffers.size();
        const bool task = load.task.valid() && load.task.index() < plan_.graph.tasks.size();
        return fmt::format("bytes [{}, {}) of {} for {}", load.offset, load.offset + load.bytes,
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
