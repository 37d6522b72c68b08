#include "memory/memory.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace stretto {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// A set of regions.
class RegionSet {
public:
    explicit RegionSet(std::size_t count) : words_((count + 63) / 64, 0) {}
    [[nodiscard]] bool has(std::size_t region) const { return (words_[region / 64] >> region % 64 & 1) != 0; }
    void add(std::size_t region) { words_[region / 64] |= std::uint64_t{1} << region % 64; }
    void add(const RegionSet& other) {
        for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
    }

private:
    std::vector<std::uint64_t> words_;
};

/// Which regions are wholly complete before others start, as far as waits for whole events show it.
class RegionOrder {
public:
    explicit RegionOrder(const Plan& plan)
        : plan_(plan),
          count_(plan.graph.regions.regions.size()),
          before_(count_, RegionSet(count_)),
          signallers_(plan.events.size()),
          awaited_(count_),
          drained_(count_) {
        collect();
        // Regions are numbered in program order, so everything before a region is known already.
        for (std::size_t r = 0; r < count_; ++r) close(r);
    }

    /// Is every task of `first` complete before any task of `second` starts?
    [[nodiscard]] bool ordered(std::size_t first, std::size_t second) const {
        return before_[second].has(first);
    }

private:
    /// Of one region: an event whose signals some of its tasks all await, and how many tasks do.
    struct Awaited {
        std::size_t event = 0;
        std::int64_t tasks = 0;
    };

    [[nodiscard]] std::size_t region_of(TaskId task) const { return plan_.graph[task].region.index(); }

    void collect() {
        std::vector<std::map<std::size_t, std::int64_t>> tasks(count_);
        for (const Worker& worker : plan_.workers) {
            for (const Step& step : worker.queue) {
                for (EventId event : step.signals) signallers_[event.index()].push_back(step.task);
                for (const Wait& wait : step.waits) {
                    const bool for_all = wait.target == plan_.events[wait.event.index()].signals;
                    if (for_all) ++tasks[region_of(step.task)][wait.event.index()];
                }
            }
        }
        for (std::size_t r = 0; r < count_; ++r) {
            for (const auto& [event, count] : tasks[r]) awaited_[r].push_back({event, count});
        }
    }

    /// The regions all of whose tasks have signalled the events that `keep` chooses among those that `region` awaits.
    template <class Keep>
    [[nodiscard]] std::vector<std::size_t> wholly_awaited(std::size_t region, Keep&& keep) const {
        std::vector<TaskId> tasks;
        for (const Awaited& awaited : awaited_[region]) {
            if (!keep(awaited)) continue;
            const auto& signallers = signallers_[awaited.event];
            tasks.insert(tasks.end(), signallers.begin(), signallers.end());
        }
        std::sort(tasks.begin(), tasks.end());
        tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
        std::map<std::size_t, std::int64_t> counts;
        for (TaskId task : tasks) ++counts[region_of(task)];
        std::vector<std::size_t> whole;
        for (const auto& [from, count] : counts) {
            if (count == plan_.graph.tasks_of[from].size()) whole.push_back(from);
        }
        return whole;
    }

    void close(std::size_t region) {
        const std::int64_t tasks = plan_.graph.tasks_of[region].size();
        const auto by_all = [&](const Awaited& awaited) { return awaited.tasks == tasks; };
        RegionSet& before = before_[region];
        std::set<std::size_t> signalling;
        for (const Awaited& awaited : awaited_[region]) {
            if (!by_all(awaited)) continue;
            for (TaskId task : signallers_[awaited.event]) signalling.insert(region_of(task));
        }
        for (std::size_t from : signalling) before.add(before_[from]);
        for (std::size_t from : wholly_awaited(region, by_all)) before.add(from);
        // If every task of q is awaited by some task of p, and p is complete, then so is q.
        for (std::size_t p = region; p-- > 0;) {
            if (!before.has(p)) continue;
            for (std::size_t q : drained_[p]) before.add(q);
        }
        drained_[region] = wholly_awaited(region, [](const Awaited&) { return true; });
    }

    const Plan& plan_;
    std::size_t count_;
    std::vector<RegionSet> before_;
    std::vector<std::vector<TaskId>> signallers_;    ///< by event
    std::vector<std::vector<Awaited>> awaited_;      ///< by region
    std::vector<std::vector<std::size_t>> drained_;  ///< by region: those whose tasks it awaits all together
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
