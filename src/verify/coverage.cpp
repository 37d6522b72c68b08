#include <fmt/format.h>

#include "verify/accesses.h"
#include "verify/boxes.h"

namespace stretto::verifying {
namespace {

using Kind = Fault::Kind;

/// Walks the regions in order and keeps the part of a buffer that nobody has written yet. That the writers
/// come first in time is what the race check proves.
class CoverageCheck {
public:
    CoverageCheck(const Plan& plan, const Order& order, FaultList& faults)
        : plan_(plan), order_(order), faults_(faults) {}

    void check(BufferId id, const BufferUse& use) {
        const Buffer& buffer = plan_.graph.regions[id];
        std::vector<Box> unwritten{whole(buffer.shape)};
        if (is_empty(unwritten.front())) return;
        for (const Group& group : use.groups) {
            for (const Touch& touch : group.touches) {
                if (unwritten.empty()) break;
                if (!group.write) {
                    report_read(id, touch, unwritten);
                } else if (!touch.print->may) {
                    subtract(unwritten, touch.print->box);
                }
            }
        }
        if (buffer.role == BufferRole::Output) report_missing(id, unwritten);
    }

    /// A buffer that is read and never written has no groups.
    void check_unwritten_reads(const std::vector<BufferUse>& uses) {
        for (std::size_t t = 0; t < plan_.graph.tasks.size(); ++t) {
            const TaskId task(static_cast<std::int64_t>(t));
            if (!order_.starts(task)) continue;
            for (const Footprint& read : plan_.graph.tasks[t].reads) {
                const Buffer& buffer = plan_.graph.regions[read.buffer];
                const bool scratch = buffer.role == BufferRole::Arena || buffer.role == BufferRole::Output;
                if (!scratch || uses[read.buffer.index()].written || is_empty(read.box)) continue;
                report_read(read.buffer, {task, &read}, {whole(buffer.shape)});
            }
        }
    }

private:
    void report_read(BufferId id, const Touch& read, const std::vector<Box>& unwritten) {
        for (const Box& hole : unwritten) {
            if (!intersects(hole, read.print->box)) continue;
            const Box part = intersection(hole, read.print->box);
            faults_.add(Kind::Uninitialized,
                        fmt::format("read of {}: no earlier region writes {} of it\n  reads   {}",
                                    bytes_name(plan_, id, byte_hull(plan_.graph.regions[id], part)),
                                    box_name(part), order_.describe(read.task)));
            return;
        }
    }

    void report_missing(BufferId id, const std::vector<Box>& unwritten) {
        for (const Box& hole : unwritten) {
            faults_.add(Kind::MissingWrite, fmt::format("no task writes {} of output '{}'", box_name(hole),
                                                        plan_.graph.regions[id].name));
        }
    }

    const Plan& plan_;
    const Order& order_;
    FaultList& faults_;
};

}  // namespace

void check_coverage(const Plan& plan, const Order& order, const std::vector<BufferUse>& uses,
                    FaultList& faults) {
    CoverageCheck check(plan, order, faults);
    check.check_unwritten_reads(uses);
    for (std::size_t b = 0; b < uses.size(); ++b) {
        const BufferRole role = plan.graph.regions.buffers[b].role;
        if (role == BufferRole::Output || (role == BufferRole::Arena && uses[b].written)) {
            check.check(BufferId(static_cast<std::int64_t>(b)), uses[b]);
        }
    }
}

}  // namespace stretto::verifying
