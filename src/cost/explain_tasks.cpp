#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "base/error.h"
#include "cost/explain.h"

namespace stretto {
namespace {

struct Place {
    std::size_t worker = 0;
    std::size_t position = 0;
};

/// How a chain got to a task: from which one, by an event or by queue order.
struct Hop {
    TaskId from;
    EventId event;
};

/// The plan as a graph of tasks: each leads to its successor in the queue, and to the tasks that need its signal.
/// Only waits for all signals of an event are followed: another one does not order any single signaller.
class Chains {
public:
    explicit Chains(const Plan& plan)
        : plan_(plan), places_(plan.graph.tasks.size()), waiters_(plan.events.size()) {
        for (std::size_t w = 0; w < plan.workers.size(); ++w) {
            const auto& queue = plan.workers[w].queue;
            for (std::size_t p = 0; p < queue.size(); ++p) {
                places_.at(queue[p].task.index()) = Place{w, p};
                for (const Wait& wait : queue[p].waits) {
                    const Event& event = plan.events.at(wait.event.index());
                    if (wait.target == event.signals) waiters_[wait.event.index()].push_back(queue[p].task);
                }
            }
        }
    }

    [[nodiscard]] std::string describe(TaskId task) const {
        const std::string& name = plan_.graph.regions[plan_.graph[task].region].name;
        const std::optional<Place>& place = places_[task.index()];
        return fmt::format("#{} {} {}", task.value, name,
                           place ? fmt::format("on worker {}, step {}", place->worker, place->position)
                                 : std::string("on no worker"));
    }

    /// The shortest chain, one line a hop; nothing if there is none.
    [[nodiscard]] std::optional<std::string> chain(TaskId from, TaskId to) const {
        const auto hops = search(from, to);
        if (!hops[to.index()]) return std::nullopt;
        std::vector<std::string> lines;
        for (TaskId task = to; task != from; task = hops[task.index()]->from) {
            const EventId event = hops[task.index()]->event;
            const std::string how =
                event.valid() ? fmt::format("event #{} '{}'", event.value, plan_.events[event.index()].name)
                              : std::string("queue order");
            lines.push_back(fmt::format("  {} -> {}\n", how, describe(task)));
        }
        std::string text;
        for (auto line = lines.rbegin(); line != lines.rend(); ++line) text += *line;
        return text;
    }

private:
    [[nodiscard]] std::vector<std::optional<Hop>> search(TaskId from, TaskId to) const {
        std::vector<std::optional<Hop>> hops(places_.size());
        std::vector<bool> spread(plan_.events.size(), false);
        hops[from.index()] = Hop{};
        std::deque<TaskId> open{from};
        const auto reach = [&](TaskId task, Hop hop) {
            if (hops[task.index()]) return;
            hops[task.index()] = hop;
            open.push_back(task);
        };
        while (!open.empty() && !hops[to.index()]) {
            const TaskId task = open.front();
            open.pop_front();
            if (!places_[task.index()]) continue;
            const auto [worker, position] = *places_[task.index()];
            const auto& queue = plan_.workers[worker].queue;
            for (EventId event : queue[position].signals) {
                if (spread.at(event.index())) continue;
                spread[event.index()] = true;
                for (TaskId waiter : waiters_[event.index()]) reach(waiter, {task, event});
            }
            if (position + 1 < queue.size()) reach(queue[position + 1].task, {task, EventId{}});
        }
        return hops;
    }

    const Plan& plan_;
    std::vector<std::optional<Place>> places_;
    std::vector<std::vector<TaskId>> waiters_;  ///< by event
};

}  // namespace

std::string explain_tasks(const Plan& plan, TaskId a, TaskId b) {
    for (TaskId task : {a, b}) {
        if (task.valid() && task.index() < plan.graph.tasks.size()) continue;
        throw UserError(fmt::format("there is no task #{}; the plan has {} tasks, numbered from 0",
                                    task.value, plan.graph.tasks.size()));
    }
    const Chains chains(plan);
    std::string text = chains.describe(a) + "\n" + chains.describe(b) + "\n";
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
        if (from == to) return text + "they are the same task\n";
        if (const auto chain = chains.chain(from, to)) {
            return text + fmt::format("#{} comes before #{}:\n", from.value, to.value) + *chain;
        }
    }
    return text + "no queue order and no hand-off orders them\n";
}

}  // namespace stretto
