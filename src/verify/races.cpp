#include <fmt/format.h>

#include <set>

#include "verify/accesses.h"
#include "verify/boxes.h"

namespace stretto::verifying {
namespace {

using Kind = Fault::Kind;

std::vector<const Box*> boxes_of(const Group& group) {
    std::vector<const Box*> boxes;
    boxes.reserve(group.touches.size());
    for (const Touch& touch : group.touches) boxes.push_back(&touch.print->box);
    return boxes;
}

class RaceCheck {
public:
    RaceCheck(const Plan& plan, const Order& order, FaultList& faults)
        : plan_(plan), order_(order), faults_(faults) {}

    void check(const BufferUse& use, bool tagged) {
        for (std::size_t j = 0; j < use.groups.size(); ++j) {
            if (use.groups[j].write) double_writes(use.groups[j]);
            for (std::size_t i = 0; i < j; ++i) {
                const Group& a = use.groups[i];
                const Group& b = use.groups[j];
                if (tagged) {
                    if (a.write && b.write) written_twice(a, b);
                } else if (a.write || b.write) {
                    ordered(a, b);
                }
            }
        }
    }

private:
    /// Every access of `earlier` must come before the accesses of `later` that meet it. In one region reads
    /// come first: a region sees the writes of earlier ones only.
    void ordered(const Group& earlier, const Group& later) {
        if (wholly_before(earlier, later)) return;
        std::set<TaskId> reported;
        for_each_intersection(boxes_of(earlier), boxes_of(later), [&](std::size_t i, std::size_t j) {
            const Touch& a = earlier.touches[i];
            const Touch& b = later.touches[j];
            if (a.task == b.task || order_.before(a.task, b.task)) return;
            if (faults_.full(Kind::Race) || !reported.insert(b.task).second) return;
            const char* reason = order_.before(b.task, a.task)
                                     ? "the plan orders these tasks the wrong way round"
                                     : "no hand-off orders these tasks";
            faults_.add(Kind::Race, describe("race on", a, earlier.write, b, later.write, reason));
        });
    }

    /// Two data-dependent writes may name the same box: which bytes they write is only known on the device.
    void double_writes(const Group& group) {
        for_each_intersection(boxes_of(group), boxes_of(group), [&](std::size_t i, std::size_t j) {
            const Touch& a = group.touches[i];
            const Touch& b = group.touches[j];
            if (i >= j || (a.print->may && b.print->may) || faults_.full(Kind::DoubleWrite)) return;
            faults_.add(Kind::DoubleWrite, describe("double write of", a, true, b, true,
                                                    "tasks of one region must write apart"));
        });
    }

    /// A reader waits for the word itself, so it needs no order; but a second write would have to wait for all readers
    /// of the first, and its tag would be the same.
    void written_twice(const Group& first, const Group& second) {
        for_each_intersection(boxes_of(first), boxes_of(second), [&](std::size_t i, std::size_t j) {
            if (faults_.full(Kind::DoubleWrite)) return;
            faults_.add(Kind::DoubleWrite, describe("double write of", first.touches[i], true,
                                                    second.touches[j], true, "a word is written once"));
        });
    }

    std::string describe(const char* what, const Touch& a, bool a_writes, const Touch& b, bool b_writes,
                         const char* reason) const {
        const BufferId id = a.print->buffer;
        const Box both = intersection(a.print->box, b.print->box);
        const Range bytes = byte_hull(plan_.graph.regions[id], both);
        const auto verb = [](bool writes) { return writes ? "writes" : "reads "; };
        return fmt::format(
            "{} {}: {}\n  {}  {}\n  {}  {}\n  see the path: stretto explain model.stretto --tasks {},{}",
            what, bytes_name(plan_, id, bytes), reason, verb(a_writes), order_.describe(a.task),
            verb(b_writes), order_.describe(b.task), a.task.value, b.task.value);
    }

    const Plan& plan_;
    const Order& order_;
    FaultList& faults_;
};

}  // namespace

void check_races(const Plan& plan, const Order& order, const std::vector<BufferUse>& uses,
                 FaultList& faults) {
    RaceCheck check(plan, order, faults);
    for (std::size_t b = 0; b < uses.size(); ++b) check.check(uses[b], plan.graph.regions.buffers[b].tagged);
}

}  // namespace stretto::verifying
