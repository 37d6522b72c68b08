#include "verify/accesses.h"

#include <algorithm>
#include <limits>

#include "verify/boxes.h"

namespace stretto::verifying {
namespace {

void summarize(Group& group, const Order& order) {
    const auto workers = static_cast<std::size_t>(order.workers());
    group.last.assign(workers, 0);
    group.least.assign(workers, std::numeric_limits<std::int32_t>::max());
    for (const Touch& touch : group.touches) {
        const Order::Place at = order.place(touch.task);
        auto& last = group.last[static_cast<std::size_t>(at.worker)];
        last = std::max(last, at.position + 1);
        order.lower_to_required(group.least, touch.task);
    }
}

class Collector {
public:
    Collector(const Plan& plan, const Order& order)
        : plan_(plan), order_(order), uses_(plan.graph.regions.buffers.size()) {}

    std::vector<BufferUse> run() {
        for (const Task& task : plan_.graph.tasks) {
            for (const Footprint& write : task.writes) uses_[write.buffer.index()].written = true;
        }
        for (Range tasks : plan_.graph.tasks_of) {
            for (const bool write : {false, true}) {
                for (std::int64_t t = tasks.begin; t < tasks.end; ++t) add(TaskId(t), write);
            }
        }
        for (BufferUse& use : uses_) {
            for (Group& group : use.groups) summarize(group, order_);
        }
        return std::move(uses_);
    }

private:
    void add(TaskId id, bool write) {
        if (!order_.starts(id)) return;
        const Task& task = plan_.graph[id];
        for (const Footprint& print : write ? task.writes : task.reads) {
            BufferUse& use = uses_[print.buffer.index()];
            if (!use.written || is_empty(print.box)) continue;
            auto& groups = use.groups;
            if (groups.empty() || groups.back().region != task.region || groups.back().write != write) {
                groups.push_back({task.region, write, {}, {}, {}});
            }
            groups.back().touches.push_back({id, &print});
        }
    }

    const Plan& plan_;
    const Order& order_;
    std::vector<BufferUse> uses_;
};

}  // namespace

std::vector<BufferUse> collect_uses(const Plan& plan, const Order& order) {
    return Collector(plan, order).run();
}

bool wholly_before(const Group& a, const Group& b) {
    for (std::size_t w = 0; w < a.last.size(); ++w) {
        if (b.least[w] < a.last[w]) return false;
    }
    return true;
}

}  // namespace stretto::verifying
