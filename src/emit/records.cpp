#include "emit/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "emit/operand_slots.h"
#include "fuse/product_kind.h"
#include "schedule/loads.h"

namespace stretto {
namespace {

static_assert(kMaxWaits <= abi::kMaxWaits && kMaxSignals <= abi::kMaxSignals);

class RecordWriter {
public:
    RecordWriter(const Plan& plan, const std::vector<std::uint32_t>& kinds) : plan_(plan), kinds_(kinds) {
        for (const Region& region : plan.graph.regions.regions) slots_.push_back(operand_slots(region));
    }

    [[nodiscard]] abi::Record record(const Step& step, bool streams) const {
        const Task& task = plan_.graph[step.task];
        abi::Record record{};
        record.kind = kinds_.at(task.region.index());
        record.task = static_cast<abi::U32>(step.task.value);
        for (std::size_t i = 0; i < task.tile.size(); ++i) {
            record.tile[i] = {narrow(task.tile[i].begin, step), narrow(task.tile[i].end, step)};
        }
        std::fill(std::begin(record.operands), std::end(record.operands), abi::kNoOperand);
        const std::vector<BufferId>& slots = slots_.at(task.region.index());
        for (std::size_t i = 0; i < slots.size(); ++i)
            record.operands[i] = static_cast<abi::U64>(slots[i].value);
        set_hand_offs(record, step);
        if (streams) record.rows_per_load = rows_of(task, step);
        return record;
    }

    [[nodiscard]] abi::Load load(const Load& load) const {
        if (load.offset % 16 != 0 || load.row_bytes % 16 != 0 || load.row_stride % 16 != 0 ||
            slot_bytes(load) > plan_.shared.slot_bytes) {
            throw InternalError(fmt::format(
                "load of task {} ({} rows of {} bytes at {} of {}) does not fit the ring: rows are "
                "multiples of 16 bytes, at multiples of 16, and fill at most a slot ({} bytes)",
                load.task.value, load.rows, load.row_bytes, load.offset,
                plan_.graph.regions[load.buffer].name, plan_.shared.slot_bytes));
        }
        return {static_cast<abi::U64>(load.offset),
                static_cast<abi::U32>(load.buffer.value),
                static_cast<abi::U32>(load.rows),
                static_cast<abi::U32>(load.row_bytes),
                static_cast<abi::U32>(load.row_stride),
                static_cast<abi::U32>(load.bytes()),
                0};
    }

private:
    [[nodiscard]] abi::I32 narrow(std::int64_t value, const Step& step) const {
        if (value > std::numeric_limits<abi::I32>::max()) {
            throw InternalError(fmt::format("tile of task {} ({}) exceeds 32-bit positions", step.task.value,
                                            region_name(step)));
        }
        return static_cast<abi::I32>(value);
    }

    [[nodiscard]] const std::string& region_name(const Step& step) const {
        return plan_.graph.regions[plan_.graph[step.task].region].name;
    }

    void set_hand_offs(abi::Record& record, const Step& step) const {
        if (step.waits.size() > abi::kMaxWaits || step.signals.size() > abi::kMaxSignals) {
            throw InternalError(fmt::format(
                "task {} ({}) has {} waits and {} signals; a record holds {} and {}", step.task.value,
                region_name(step), step.waits.size(), step.signals.size(), abi::kMaxWaits, abi::kMaxSignals));
        }
        record.wait_count = static_cast<abi::U32>(step.waits.size());
        for (std::size_t i = 0; i < step.waits.size(); ++i) {
            const Wait& wait = step.waits[i];
            record.waits[i] = {static_cast<abi::U32>(wait.event.value), wait.target,
                               plan_.events.at(wait.event.index()).signals};
        }
        record.signal_count = static_cast<abi::U32>(step.signals.size());
        for (std::size_t i = 0; i < step.signals.size(); ++i) {
            record.signals[i] = static_cast<abi::U32>(step.signals[i].value);
        }
    }

    /// Rows of a weight in each full load of a task that streams.
    [[nodiscard]] abi::I32 rows_of(const Task& task, const Step& step) const {
        const auto* region = std::get_if<MatMulRegion>(&plan_.graph.regions[task.region].body);
        if (region == nullptr || !region->streamed) {
            throw InternalError(fmt::format("task {} ({}) has loads but consumes no stream", step.task.value,
                                            region_name(step)));
        }
        ensure(task.tile[0].size() == 1, "a task that streams weights has one batch entry");
        return narrow(rows_per_load(*region), step);
    }

    const Plan& plan_;
    const std::vector<std::uint32_t>& kinds_;
    std::vector<std::vector<BufferId>> slots_;
};

}  // namespace

Records make_records(const Plan& plan, const std::vector<std::uint32_t>& kind_of_region) {
    const RecordWriter writer(plan, kind_of_region);
    Records out;
    for (const Worker& worker : plan.workers) {
        out.workers.push_back(
            {static_cast<abi::U32>(out.records.size()), static_cast<abi::U32>(worker.queue.size()),
             static_cast<abi::U32>(out.loads.size()), static_cast<abi::U32>(worker.stream.size())});
        std::size_t at = 0;  // the first load that no earlier task consumes
        for (const Step& step : worker.queue) {
            const bool streams = at < worker.stream.size() && worker.stream[at].task == step.task;
            out.records.push_back(writer.record(step, streams));
            while (at < worker.stream.size() && worker.stream[at].task == step.task) ++at;
        }
        ensure(at == worker.stream.size(), "a worker's loads are not in the order of its tasks");
        for (const Load& load : worker.stream) out.loads.push_back(writer.load(load));
    }
    return out;
}

}  // namespace stretto
