#include "schedule/handoffs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "schedule/words.h"

namespace stretto {
namespace {

/// What a reader loses by waiting for a whole region of which it needs a part, or for all workers: the stragglers of the
/// rest.
constexpr double kWholeRegionPenalty = 0.05;

/// How readers of one region wait for it.
struct Choice {
    enum class Kind : std::uint8_t { Whole, Parts, Sets } kind = Kind::Whole;
    std::vector<Range> ranges;  ///< signalling tasks of each event
    double cost = 0;
};

class Chooser {
public:
    Chooser(Plan& plan, const Machine& machine, const PlanOptions& options)
        : plan_(plan), machine_(machine), options_(options), graph_(plan.graph) {
        const std::size_t regions = graph_.regions.regions.size();
        complete_.assign(regions, std::vector<bool>(regions, false));
        where_.resize(graph_.tasks.size());
        for (std::size_t w = 0; w < plan.workers.size(); ++w) {
            for (std::size_t i = 0; i < plan.workers[w].queue.size(); ++i) {
                where_[plan.workers[w].queue[i].task.index()] = {w, i};
            }
        }
    }

    void run() {
        std::vector<std::int32_t> worker_of;
        for (const Place& place : where_) worker_of.push_back(static_cast<std::int32_t>(place.worker));
        if (options_.words) choose_words(plan_.graph, worker_of, machine_, options_.words_up_to);
        orders_ = orders_beside_words(graph_);
        for (std::size_t r = 0; r < graph_.regions.regions.size(); ++r) {
            connect(r);
            name_words(r);
        }
    }

private:
    struct Place {
        std::size_t worker = 0;
        std::size_t position = 0;
    };

    Step& step(std::int64_t task) {
        const Place& place = where_[static_cast<std::size_t>(task)];
        return plan_.workers[place.worker].queue[place.position];
    }

    [[nodiscard]] std::size_t region_of(std::int64_t task) const {
        return graph_.tasks[static_cast<std::size_t>(task)].region.index();
    }

    [[nodiscard]] bool on_same_worker(std::int64_t reader, Range writers) const {
        const std::size_t worker = where_[static_cast<std::size_t>(reader)].worker;
        for (std::int64_t t = writers.begin; t < writers.end; ++t) {
            if (where_[static_cast<std::size_t>(t)].worker != worker) return false;
        }
        return true;
    }

    /// What each task of a region needs of one earlier region.
    using Needs = std::map<std::int64_t, std::vector<Range>>;

    void connect(std::size_t region) {
        const Range tasks = graph_.tasks_of[region];
        std::map<std::size_t, Needs, std::greater<>>
            needs;  // the latest writers first: they may cover the others
        for (std::int64_t t = tasks.begin; t < tasks.end; ++t) {
            for (Range range : orders_[static_cast<std::size_t>(t)]) {
                needs[region_of(range.begin)][t].push_back(range);
            }
        }
        std::vector<bool>& complete = complete_[region];
        std::vector<std::pair<std::size_t, Choice>> chosen;
        std::map<std::int64_t, std::size_t> waits;
        for (auto& [writer, by_task] : needs) {
            if (complete[writer]) continue;
            for (auto& [task, ranges] : by_task) {
                std::erase_if(ranges,
                              [&, reader = task](Range range) { return on_same_worker(reader, range); });
            }
            std::erase_if(by_task, [](const auto& entry) { return entry.second.empty(); });
            if (by_task.empty()) {
                plan_.edges.push_back(edge(writer, region, HandOff::SameWorker));
                continue;
            }
            Choice choice = cheapest(writer, by_task);
            for (const auto& [task, ranges] : by_task) waits[task] += waits_for(choice, ranges);
            const bool everyone = static_cast<std::int64_t>(by_task.size()) == tasks.size();
            if (everyone) {
                for (std::size_t r = 0; r < complete.size(); ++r) {
                    if (complete_[writer][r]) complete[r] = true;
                }
                complete[writer] = choice.kind == Choice::Kind::Whole;
            }
            chosen.emplace_back(writer, std::move(choice));
        }
        std::size_t most_waits = 0;
        for (const auto& [task, count] : waits) most_waits = std::max(most_waits, count);
        const bool room = std::all_of(chosen.begin(), chosen.end(), [&](const auto& entry) {
            return entry.second.kind != Choice::Kind::Whole || has_room_for_all(entry.first);
        });
        if (!room || most_waits > kMaxWaits ||
            counters_us(most_waits) > machine_.barrier_us + kWholeRegionPenalty) {
            add_barrier(region, needs);
            return;
        }
        for (const auto& [writer, choice] : chosen) add_counters(writer, region, choice, needs[writer]);
    }

    /// Records the regions from which words are all that a region needs.
    void name_words(std::size_t region) {
        const Range tasks = graph_.tasks_of[region];
        std::set<std::size_t, std::greater<>> sources;
        for (std::int64_t t = tasks.begin; t < tasks.end; ++t) {
            for (Range range : graph_.tasks[static_cast<std::size_t>(t)].after) {
                if (!on_same_worker(t, range)) sources.insert(region_of(range.begin));
            }
        }
        for (std::int64_t t = tasks.begin; t < tasks.end; ++t) {
            for (Range range : orders_[static_cast<std::size_t>(t)]) sources.erase(region_of(range.begin));
        }
        for (std::size_t source : sources) plan_.edges.push_back(edge(source, region, HandOff::Words));
    }

    /// A task polls all its counters together: the first costs the hand-off, the others a little each.
    [[nodiscard]] double counters_us(std::size_t waits) const {
        return waits == 0 ? 0
                          : machine_.counter_us + static_cast<double>(waits - 1) * machine_.counter_wait_us;
    }

    /// Does a task that needs `ranges` wait for `event`?
    [[nodiscard]] static bool waits_on(const Choice& choice, const std::vector<Range>& ranges, Range event) {
        return std::any_of(ranges.begin(), ranges.end(), [&](Range range) {
            return choice.kind == Choice::Kind::Sets ? range == event : intersects(range, event);
        });
    }

    [[nodiscard]] static std::size_t waits_for(const Choice& choice, const std::vector<Range>& ranges) {
        std::size_t count = 0;
        for (Range event : choice.ranges) {
            if (waits_on(choice, ranges, event)) ++count;
        }
        return count;
    }

    [[nodiscard]] Choice cheapest(std::size_t writer, const Needs& needs) const {
        const Range all = graph_.tasks_of[writer];
        std::set<std::pair<std::int64_t, std::int64_t>> distinct;
        std::set<std::int64_t> cuts{all.begin, all.end};
        for (const auto& [task, ranges] : needs) {
            for (Range range : ranges) {
                distinct.emplace(range.begin, range.end);
                cuts.insert(range.begin);
                cuts.insert(range.end);
            }
        }
        Choice whole{Choice::Kind::Whole, {all}, machine_.counter_us};
        if (distinct.size() == 1 && *distinct.begin() == std::pair(all.begin, all.end)) return whole;
        whole.cost += kWholeRegionPenalty;

        Choice parts{Choice::Kind::Parts, {}, machine_.counter_us};
        for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut)
            parts.ranges.push_back({*cut, *std::next(cut)});
        Choice sets{Choice::Kind::Sets, {}, machine_.counter_us};
        for (const auto& [begin, end] : distinct) sets.ranges.push_back({begin, end});
        std::size_t most_waits = 1;
        for (const auto& [task, ranges] : needs) most_waits = std::max(most_waits, waits_for(parts, ranges));
        parts.cost = counters_us(most_waits);
        const std::size_t most_signals = signals_per_task(sets.ranges, all);
        sets.cost += static_cast<double>(most_signals - 1) * machine_.signal_us;

        Choice best = std::move(whole);
        // Every further signal of a writer also delays its other readers, so parts win ties.
        if (parts.cost < best.cost && has_room(parts)) best = std::move(parts);
        if (sets.cost < best.cost && has_room(sets)) best = std::move(sets);
        return best;
    }

    [[nodiscard]] static std::size_t signals_per_task(const std::vector<Range>& ranges, Range all) {
        std::vector<std::size_t> count(static_cast<std::size_t>(all.size()) + 1, 0);
        for (Range range : ranges) {
            for (std::int64_t t = range.begin; t < range.end; ++t)
                ++count[static_cast<std::size_t>(t - all.begin)];
        }
        return std::max<std::size_t>(*std::max_element(count.begin(), count.end()), 1);
    }

    /// May every signaller take the choice's signals? One place is kept for an event of the whole region.
    [[nodiscard]] bool has_room(const Choice& choice) const {
        for (Range range : choice.ranges) {
            for (std::int64_t t = range.begin; t < range.end; ++t) {
                const Place& place = where_[static_cast<std::size_t>(t)];
                const Step& signaller = plan_.workers[place.worker].queue[place.position];
                const auto more = static_cast<std::size_t>(
                    std::count_if(choice.ranges.begin(), choice.ranges.end(),
                                  [&](Range other) { return other.begin <= t && t < other.end; }));
                if (signaller.signals.size() + more + 1 > kMaxSignals) return false;
            }
        }
        return true;
    }

    /// Can every task of the region signal one event more, if it does not signal it already?
    [[nodiscard]] bool has_room_for_all(std::size_t region) {
        const Range all = graph_.tasks_of[region];
        if (events_.count({all.begin, all.end}) != 0) return true;
        for (std::int64_t t = all.begin; t < all.end; ++t) {
            if (step(t).signals.size() >= kMaxSignals) return false;
        }
        return true;
    }

    /// The event that all tasks of a range signal; made at its first use.
    EventId event_of(Range range) {
        const auto known = events_.find({range.begin, range.end});
        if (known != events_.end()) return known->second;
        const std::size_t region = region_of(range.begin);
        const Range all = graph_.tasks_of[region];
        const std::string& name = graph_.regions.regions[region].name;
        const bool whole = range == all;
        const EventId id(static_cast<std::int64_t>(plan_.events.size()));
        plan_.events.push_back(
            {HandOff::Counter, static_cast<std::uint32_t>(range.size()),
             whole ? name : fmt::format("{}[{}:{}]", name, range.begin - all.begin, range.end - all.begin)});
        for (std::int64_t t = range.begin; t < range.end; ++t) {
            step(t).signals.push_back(id);
            ensure(step(t).signals.size() <= kMaxSignals, "a task has more signals than a record holds");
        }
        events_.emplace(std::pair(range.begin, range.end), id);
        return id;
    }

    void add_counters(std::size_t writer, std::size_t region, const Choice& choice, const Needs& needs) {
        plan_.edges.push_back(edge(writer, region, HandOff::Counter));
        for (const auto& [task, ranges] : needs) {
            for (Range event : choice.ranges) {
                if (!waits_on(choice, ranges, event)) continue;
                const EventId id = event_of(event);
                step(task).waits.push_back({id, plan_.events[id.index()].signals});
            }
        }
    }

    /// Every task of `region` waits until every worker has finished its tasks of earlier regions.
    void add_barrier(std::size_t region, const std::map<std::size_t, Needs, std::greater<>>& needs) {
        for (const auto& [writer, by_task] : needs)
            plan_.edges.push_back(edge(writer, region, HandOff::Barrier));
        const EventId id(static_cast<std::int64_t>(plan_.events.size()));
        Event event{HandOff::Barrier, 0,
                    fmt::format("barrier before {}", graph_.regions.regions[region].name)};
        const std::int64_t first = graph_.tasks_of[region].begin;
        std::set<EventId> implied;
        for (Worker& worker : plan_.workers) {
            const auto later = std::find_if(worker.queue.begin(), worker.queue.end(),
                                            [&](const Step& s) { return s.task.value >= first; });
            if (later == worker.queue.begin()) continue;
            Step& last = *(later - 1);
            // Where a worker has been idle since an earlier barrier, the region behind that one waited for it; and whoever
            // computed the last such region signals here.
            const bool arrived = std::any_of(last.signals.begin(), last.signals.end(), [&](EventId signal) {
                return plan_.events[signal.index()].kind == HandOff::Barrier;
            });
            if (arrived) continue;
            if (last.signals.size() == kMaxSignals) {
                implied.insert(last.signals.front());
                continue;
            }
            last.signals.push_back(id);
            ++event.signals;
        }
        std::vector<Wait> waits;
        for (EventId other : implied) waits.push_back({other, plan_.events[other.index()].signals});
        if (event.signals > 0) {
            waits.push_back({id, event.signals});
            plan_.events.push_back(std::move(event));
        }
        ensure(waits.size() <= kMaxWaits, "a barrier needs more waits than a record holds");
        for (std::int64_t t = first; t < graph_.tasks_of[region].end; ++t) step(t).waits = waits;
        for (std::size_t r = 0; r < region; ++r) complete_[region][r] = true;
    }

    static Edge edge(std::size_t from, std::size_t to, HandOff kind) {
        return {RegionId(static_cast<std::int64_t>(from)), RegionId(static_cast<std::int64_t>(to)), kind};
    }

    Plan& plan_;
    const Machine& machine_;
    const PlanOptions& options_;
    const TaskGraph& graph_;
    std::vector<Place> where_;
    std::vector<std::vector<Range>> orders_;  ///< by task: those before it that its words do not show
    /// complete_[r][q]: when any task of r starts, all of q is complete.
    std::vector<std::vector<bool>> complete_;
    std::map<std::pair<std::int64_t, std::int64_t>, EventId> events_;
};

}  // namespace

void choose_hand_offs(Plan& plan, const Machine& machine, const PlanOptions& options) {
    Chooser(plan, machine, options).run();
}

}  // namespace stretto
