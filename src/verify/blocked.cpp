#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "verify/order.h"

namespace stretto::verifying {
namespace {

using Kind = Fault::Kind;

/// Explains why a plan blocks: waits that no execution can pass, and rings of workers that wait for each
/// other.
class BlockedPlan {
public:
    BlockedPlan(const Plan& plan, const Order& order, FaultList& faults)
        : plan_(plan), order_(order), faults_(faults), sent_(plan.events.size(), 0) {
        for (const Worker& worker : plan.workers) {
            for (const Step& step : worker.queue) {
                for (EventId event : step.signals) ++sent_[event.index()];
            }
        }
    }

    void report() {
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) unreachable_waits(w);
        cycles();
    }

private:
    struct Hop {
        const Step* step = nullptr;
        std::string wait;  ///< what it waits for
        TaskId missing;    ///< a signaller, or a writer of words, on another worker that never runs
    };

    /// A wait needs more signals than other workers, and the tasks before it on its own, can send.
    void unreachable_waits(std::size_t w) {
        std::vector<std::uint32_t> own_after(plan_.events.size(), 0);
        const auto& queue = plan_.workers[w].queue;
        for (std::size_t p = queue.size(); p-- > 0;) {
            for (EventId event : queue[p].signals) ++own_after[event.index()];
            for (const Wait& wait : queue[p].waits) {
                const std::uint32_t most = sent_[wait.event.index()] - own_after[wait.event.index()];
                if (wait.target <= most) continue;
                faults_.add(
                    Kind::Unreachable,
                    fmt::format("wait that can never hold: {} gets at most {} signals before it, and it "
                                "needs {}\n  waits   {}",
                                event_name(plan_, wait.event), most, wait.target,
                                order_.describe(queue[p].task)));
            }
            own_words(queue[p].task);
        }
    }

    /// A task needs words that its own worker writes only afterwards.
    void own_words(TaskId task) {
        const Order::Place at = order_.place(task);
        for (std::size_t set : order_.words().read_by(task)) {
            for (TaskId writer : order_.words().writers(set)) {
                const Order::Place place = order_.place(writer);
                if (place.worker != at.worker || place.position < at.position) continue;
                faults_.add(
                    Kind::Unreachable,
                    fmt::format("words of '{}' that can never come: {} writes them only after its reader\n"
                                "  waits   {}",
                                plan_.graph.regions[order_.words().buffer(set)].name,
                                task_name(plan_, writer), order_.describe(task)));
            }
        }
    }

    /// Where worker w stands still, and for whom it waits; nothing for a worker that finishes or that no
    /// other worker can free.
    [[nodiscard]] std::optional<Hop> stop_of(std::size_t w) const {
        const std::size_t at = order_.progress()[w];
        if (at == plan_.workers[w].queue.size()) return std::nullopt;
        const Step& step = plan_.workers[w].queue[at];
        for (const Wait& wait : step.waits) {
            Arrivals arrivals;
            for (std::size_t v = 0; v < plan_.workers.size(); ++v) {
                count_signals(v, wait.event, v != w, arrivals);
            }
            if (arrivals.count >= wait.target || !arrivals.missing.valid()) continue;
            return Hop{&step,
                       fmt::format("{} ({} of {} signals)", event_name(plan_, wait.event), arrivals.count,
                                   wait.target),
                       arrivals.missing};
        }
        for (std::size_t set : order_.words().read_by(step.task)) {
            for (TaskId writer : order_.words().writers(set)) {
                const Order::Place place = order_.place(writer);
                const bool runs = static_cast<std::size_t>(place.position) <
                                  order_.progress()[static_cast<std::size_t>(place.worker)];
                if (runs || place.worker == static_cast<std::int32_t>(w)) continue;
                const std::string& buffer = plan_.graph.regions[order_.words().buffer(set)].name;
                return Hop{&step, fmt::format("words of '{}'", buffer), writer};
            }
        }
        return std::nullopt;
    }

    struct Arrivals {
        std::uint32_t count = 0;
        TaskId missing;  ///< a signaller on another worker that never runs
    };

    void count_signals(std::size_t v, EventId event, bool other_worker, Arrivals& arrivals) const {
        const auto& queue = plan_.workers[v].queue;
        for (std::size_t p = 0; p < queue.size(); ++p) {
            const auto sends = std::count(queue[p].signals.begin(), queue[p].signals.end(), event);
            if (sends == 0) continue;
            if (p < order_.progress()[v]) {
                arrivals.count += static_cast<std::uint32_t>(sends);
            } else if (other_worker && !arrivals.missing.valid()) {
                arrivals.missing = queue[p].task;
            }
        }
    }

    void cycles() {
        std::vector<std::optional<Hop>> stops(plan_.workers.size());
        for (std::size_t w = 0; w < stops.size(); ++w) stops[w] = stop_of(w);
        std::vector<std::size_t> visited_by(stops.size(), stops.size());
        for (std::size_t start = 0; start < stops.size(); ++start) {
            std::size_t w = start;
            while (stops[w] && visited_by[w] == stops.size()) {
                visited_by[w] = start;
                w = static_cast<std::size_t>(order_.place(stops[w]->missing).worker);
            }
            if (stops[w] && visited_by[w] == start) report_cycle(stops, w);
        }
    }

    void report_cycle(const std::vector<std::optional<Hop>>& stops, std::size_t first) {
        std::string text = "workers that wait for each other forever:";
        std::size_t w = first;
        do {
            const Hop& hop = *stops[w];
            text += fmt::format("\n  {} waits for {}, which needs {}", order_.describe(hop.step->task),
                                hop.wait, order_.describe(hop.missing));
            w = static_cast<std::size_t>(order_.place(hop.missing).worker);
        } while (w != first);
        faults_.add(Kind::Cycle, std::move(text));
    }

    const Plan& plan_;
    const Order& order_;
    FaultList& faults_;
    std::vector<std::uint32_t> sent_;  ///< by event
};

}  // namespace

void check_order(const Plan& plan, const Order& order, FaultList& faults) {
    BlockedPlan(plan, order, faults).report();
}

}  // namespace stretto::verifying
