#include "memory/memory.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace stretto {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Which regions are wholly complete before others start, as far as waits for whole events show it.
class RegionOrder {
public:
    explicit RegionOrder(const Plan& plan) : plan_(plan), count_(plan.graph.regions.regions.size()) {
        before_.assign(count_, std::vector<bool>(count_, false));
        collect();
        for (std::size_t r = 0; r < count_; ++r) close(r);
    }

    /// Is every task of `first` complete before any task of `second` starts?
    [[nodiscard]] bool ordered(std::size_t first, std::size_t second) const { return before_[second][first]; }

private:
    [[nodiscard]] std::size_t region_of(TaskId task) const { return plan_.graph[task].region.index(); }

    void collect() {
        signallers_.resize(plan_.events.size());
        waiting_tasks_.assign(plan_.events.size(), std::vector<std::int64_t>(count_, 0));
        for (const Worker& worker : plan_.workers) {
            for (const Step& step : worker.queue) {
                for (EventId event : step.signals) signallers_[event.index()].push_back(step.task);
                for (const Wait& wait : step.waits) {
                    const bool for_all = wait.target == plan_.events[wait.event.index()].signals;
                    if (for_all) ++waiting_tasks_[wait.event.index()][region_of(step.task)];
                }
            }
        }
    }

    /// Regions are numbered in program order, so everything before `region` is known already.
    void close(std::size_t region) {
        const std::int64_t tasks = plan_.graph.tasks_of[region].size();
        std::vector<std::int64_t> seen(count_, 0);  // tasks of each region that every task here waits for
        for (std::size_t e = 0; e < plan_.events.size(); ++e) {
            if (tasks == 0 || waiting_tasks_[e][region] != tasks) continue;
            for (TaskId task : signallers_[e]) {
                const std::size_t from = region_of(task);
                ++seen[from];
                for (std::size_t q = 0; q < count_; ++q) {
                    if (before_[from][q]) before_[region][q] = true;
                }
            }
        }
        for (std::size_t q = 0; q < region; ++q) {
            if (seen[q] > 0 && seen[q] >= plan_.graph.tasks_of[q].size()) before_[region][q] = true;
        }
        add_drained(region);
    }

    /// If every task of q is waited for by some task of p, and p is complete, then so is q.
    void add_drained(std::size_t region) {
        for (std::size_t p = region; p-- > 0;) {
            if (!before_[region][p]) continue;
            for (std::size_t q : drained_by(p)) before_[region][q] = true;
        }
    }

    const std::vector<std::size_t>& drained_by(std::size_t p) {
        if (drained_.empty()) {
            drained_.resize(count_);
            std::vector<std::set<std::int64_t>> awaited(count_);
            std::vector<std::vector<std::set<std::int64_t>>> by_pair(count_);
            for (std::size_t r = 0; r < count_; ++r) by_pair[r].resize(count_);
            for (std::size_t e = 0; e < plan_.events.size(); ++e) {
                for (std::size_t r = 0; r < count_; ++r) {
                    if (waiting_tasks_[e][r] == 0) continue;
                    for (TaskId task : signallers_[e]) by_pair[r][region_of(task)].insert(task.value);
                }
            }
            for (std::size_t r = 0; r < count_; ++r) {
                for (std::size_t q = 0; q < r; ++q) {
                    const auto size = static_cast<std::int64_t>(by_pair[r][q].size());
                    if (size > 0 && size == plan_.graph.tasks_of[q].size()) drained_[r].push_back(q);
                }
            }
        }
        return drained_[p];
    }

    const Plan& plan_;
    std::size_t count_;
    std::vector<std::vector<bool>> before_;
    std::vector<std::vector<TaskId>> signallers_;
    std::vector<std::vector<std::int64_t>> waiting_tasks_;
    std::vector<std::vector<std::size_t>> drained_;
};

/// The regions that touch one arena buffer.
struct Life {
    std::vector<std::size_t> touching;
    std::vector<std::size_t> writing;
};

}  // namespace

Plan place_buffers(Plan plan) {
    const RegionOrder order(plan);
    const auto& buffers = plan.graph.regions.buffers;
    std::vector<Life> lives(buffers.size());
    for (std::size_t r = 0; r < plan.graph.regions.regions.size(); ++r) {
        std::set<std::int32_t> touched;
        std::set<std::int32_t> written;
        for (const Use& use : uses(plan.graph.regions.regions[r])) {
            touched.insert(use.access->source);
            if (use.write) written.insert(use.access->source);
        }
        for (std::int32_t b : touched) lives[static_cast<std::size_t>(b)].touching.push_back(r);
        for (std::int32_t b : written) lives[static_cast<std::size_t>(b)].writing.push_back(r);
    }
    /// The old buffer's tasks all come before the first write of the new one.
    const auto dies_before = [&](std::size_t old, std::size_t next) {
        return std::all_of(lives[old].touching.begin(), lives[old].touching.end(), [&](std::size_t a) {
            return std::all_of(lives[next].writing.begin(), lives[next].writing.end(),
                               [&](std::size_t b) { return order.ordered(a, b); });
        });
    };

    struct Placed {
        std::size_t buffer;
        Range bytes;
    };
    std::vector<Placed> placed;
    plan.offsets.assign(buffers.size(), -1);
    plan.arena_bytes = 0;
    for (std::size_t b = 0; b < buffers.size(); ++b) {
        if (buffers[b].role != BufferRole::Arena) continue;
        const std::int64_t size = aligned(std::max<std::int64_t>(buffers[b].size_bytes(), 1));
        std::vector<Range> taken;
        for (const Placed& other : placed) {
            const bool words = buffers[b].tagged || buffers[other.buffer].tagged;
            if (words || (!dies_before(other.buffer, b) && !dies_before(b, other.buffer)))
                taken.push_back(other.bytes);
        }
        std::sort(taken.begin(), taken.end(), [](Range x, Range y) { return x.begin < y.begin; });
        std::int64_t offset = 0;
        for (Range range : taken) {
            if (offset + size <= range.begin) break;
            offset = std::max(offset, range.end);
        }
        placed.push_back({b, {offset, offset + size}});
        plan.offsets[b] = offset;
        plan.arena_bytes = std::max(plan.arena_bytes, offset + size);
    }
    return plan;
}

}  // namespace stretto
