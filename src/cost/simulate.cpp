#include "cost/simulate.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "base/error.h"
#include "cost/bus.h"
#include "tile/work.h"
#include "verify/word_waits.h"

namespace stretto {
namespace {

/// One worker: a loader that runs ahead and consumers that walk the queue.
struct State {
    std::size_t step = 0;         ///< of the queue
    std::size_t unmet = 0;        ///< waits of the current step that do not hold yet
    double free_at = 0;           ///< end of the step before
    std::size_t groups = 0;       ///< of the current task: load groups not yet computed
    std::size_t group_loads = 0;  ///< loads of one group
    double group_us = 0;          ///< computing time of one group
    double direct_bytes = 0;      ///< that the current task reads outside the ring
    bool wants_loads = false;     ///< the consumers stand before loads that have not arrived
    std::size_t issued = 0;       ///< loads
    std::size_t arrived = 0;
    std::size_t freed = 0;
    std::vector<EventId>
        in_flight;  ///< signals on their way to others; the worker itself knows of them at once
};

struct Happening {
    enum class Kind : std::uint8_t { Signal, Start, Read, GroupDone, TaskDone };
    double time = 0;
    std::uint64_t number = 0;
    Kind kind = Kind::Signal;
    std::size_t worker = 0;  ///< that it happens to, or that sent a Signal
    EventId event;           ///< of a Signal
    TaskId from;             ///< signaller of a Signal
    bool operator>(const Happening& other) const {
        return time != other.time ? time > other.time : number > other.number;
    }
};

class Simulator {
public:
    Simulator(const Plan& plan, const Machine& machine)
        : plan_(plan),
          machine_(machine),
          words_(plan),
          estimate_(plan.graph),
          bus_(machine.bandwidth),
          states_(plan.workers.size()),
          counts_(plan.events.size() + words_.sets(), 0),
          waiters_(counts_.size()),
          worker_of_(plan.graph.tasks.size(), 0),
          decided_by_(plan.graph.tasks.size()) {
        result_.tasks.resize(plan.graph.tasks.size());
        for (std::size_t w = 0; w < plan.workers.size(); ++w) {
            for (const Step& step : plan.workers[w].queue) worker_of_[step.task.index()] = w;
        }
    }

    Simulation run() {
        for (std::size_t w = 0; w < states_.size(); ++w) {
            issue(w, 0);
            arrive_at_step(w, 0);
        }
        while (!happenings_.empty() || bus_.busy()) {
            const bool transfer =
                bus_.busy() && (happenings_.empty() || bus_.next_end() <= happenings_.top().time);
            if (transfer) {
                const double now = bus_.next_end();
                transferred(bus_.finish_next(), now);
            } else {
                const Happening next = happenings_.top();
                happenings_.pop();
                happen(next);
            }
        }
        finish();
        return std::move(result_);
    }

private:
    using Kind = Happening::Kind;

    void schedule(double time, Kind kind, std::size_t worker, EventId event = {}, TaskId from = {}) {
        happenings_.push({time, number_++, kind, worker, event, from});
    }

    [[nodiscard]] const Step& current(std::size_t w) const { return plan_.workers[w].queue[states_[w].step]; }
    [[nodiscard]] Simulation::Span& span(std::size_t w) { return result_.tasks[current(w).task.index()]; }

    // The bus serves two transfers a worker at most: its loader's (even owner) and its consumers' (odd owner).
    void transferred(std::size_t owner, double now) {
        const std::size_t w = owner / 2;
        if (owner % 2 == 0) {
            ++states_[w].arrived;
            issue(w, now);
            if (states_[w].wants_loads) compute_group(w, now);
        } else {
            compute_group(w, now);
        }
    }

    void issue(std::size_t w, double now) {
        State& state = states_[w];
        const auto& stream = plan_.workers[w].stream;
        const auto slots = static_cast<std::size_t>(plan_.shared.slots);
        const bool under_way = state.issued > state.arrived;
        if (under_way || state.issued == stream.size() || state.issued - state.freed >= slots) return;
        bus_.start(now, static_cast<double>(stream[state.issued++].bytes()), 2 * w);
    }

    void happen(const Happening& next) {
        switch (next.kind) {
            case Kind::Signal:
                arrive(next);
                return;
            case Kind::Start:
                start(next.worker, next.time);
                return;
            case Kind::Read:
                read(next.worker, next.time);
                return;
            case Kind::GroupDone:
                group_done(next.worker, next.time);
                return;
            case Kind::TaskDone:
                task_done(next.worker, next.time);
                return;
        }
    }

    void arrive_at_step(std::size_t w, double now) {
        State& state = states_[w];
        state.free_at = now;
        if (state.step == plan_.workers[w].queue.size()) return;
        const Step& step = current(w);
        if (state.step > 0) decided_by_[step.task.index()] = plan_.workers[w].queue[state.step - 1].task;
        state.unmet = 0;
        for (const Wait& wait : step.waits) wait_for(w, wait.event, wait.target);
        for (std::size_t set : words_.read_by(step.task)) {
            wait_for(w, event_of(set), static_cast<std::uint32_t>(words_.writers(set).size()));
        }
        if (state.unmet == 0) ready(w, now);
    }

    void wait_for(std::size_t w, EventId event, std::uint32_t target) {
        State& state = states_[w];
        const auto own = std::count(state.in_flight.begin(), state.in_flight.end(), event);
        if (counts_[event.index()] + static_cast<std::uint32_t>(own) >= target) return;
        waiters_[event.index()].push_back({target - static_cast<std::uint32_t>(own), w});
        ++state.unmet;
    }

    [[nodiscard]] EventId event_of(std::size_t set) const {
        return EventId(static_cast<std::int64_t>(plan_.events.size() + set));
    }

    /// Time that a task's threads spend on asking for words.
    [[nodiscard]] double polling(TaskId task) const {
        std::int64_t bytes = 0;
        for (const Footprint& read : plan_.graph[task].reads) {
            const Buffer& buffer = plan_.graph.regions[read.buffer];
            if (buffer.tagged) bytes += volume(read.box) * buffer.element_bytes();
        }
        return static_cast<double>(bytes) * machine_.word_byte_us;
    }

    void ready(std::size_t w, double now) {
        const auto waits = static_cast<double>(current(w).waits.size());
        span(w).ready = now;
        const double counters = std::max(waits - 1, 0.0) * machine_.counter_wait_us;
        schedule(now + counters + polling(current(w).task), Kind::Start, w);
    }

    void arrive(const Happening& signal) {
        const std::size_t e = signal.event.index();
        const std::uint32_t count = ++counts_[e];
        auto& own = states_[signal.worker].in_flight;
        own.erase(std::find(own.begin(), own.end(), signal.event));
        for (Waiter& waiter : waiters_[e]) {
            if (waiter.worker == signal.worker) ++waiter.target;  // the signal was counted when it was sent
        }
        std::vector<Waiter> met;
        std::erase_if(waiters_[e], [&](const Waiter& waiter) {
            if (waiter.target > count) return false;
            met.push_back(waiter);
            return true;
        });
        for (const Waiter& waiter : met) {
            if (--states_[waiter.worker].unmet > 0) continue;
            decided_by_[current(waiter.worker).task.index()] = signal.from;
            ready(waiter.worker, signal.time);
        }
    }

    void start(std::size_t w, double now) {
        State& state = states_[w];
        const TaskId task = current(w).task;
        span(w).start = now;
        const Work work = estimate_.of(task);
        const auto* matmul = std::get_if<MatMulRegion>(&plan_.graph.regions[plan_.graph[task].region].body);
        const auto& stream = plan_.workers[w].stream;
        std::size_t loads = 0;
        while (state.freed + loads < stream.size() && stream[state.freed + loads].task == task) ++loads;
        state.group_loads = loads > 0 ? matmul->weights.size() : 0;
        state.groups = loads > 0 ? loads / state.group_loads : 1;
        const double compute_us =
            work.operations / machine_.flops + work.tensor_operations / machine_.tensor_flops;
        state.group_us = compute_us / static_cast<double>(state.groups);
        state.direct_bytes = work.direct_bytes;
        const double latency = work.direct_bytes > 0 ? machine_.load_latency_us : 0;
        schedule(now + machine_.task_us + latency, Kind::Read, w);
    }

    void read(std::size_t w, double now) {
        if (states_[w].direct_bytes > 0) {
            bus_.start(now, states_[w].direct_bytes, 2 * w + 1);
        } else {
            compute_group(w, now);
        }
    }

    void compute_group(std::size_t w, double now) {
        State& state = states_[w];
        state.wants_loads = state.arrived - state.freed < state.group_loads;
        if (!state.wants_loads) schedule(now + state.group_us, Kind::GroupDone, w);
    }

    void group_done(std::size_t w, double now) {
        State& state = states_[w];
        state.freed += state.group_loads;
        issue(w, now);
        if (--state.groups > 0) return compute_group(w, now);
        const auto signals = static_cast<double>(current(w).signals.size());
        schedule(now + std::max(signals - 1, 0.0) * machine_.signal_us, Kind::TaskDone, w);
    }

    void task_done(std::size_t w, double now) {
        const Step& step = current(w);
        span(w).end = now;
        for (EventId event : step.signals) send(w, event, step.task, now);
        for (std::size_t set : words_.written_by(step.task)) send(w, event_of(set), step.task, now);
        ++states_[w].step;
        arrive_at_step(w, now);
    }

    void send(std::size_t w, EventId event, TaskId from, double now) {
        states_[w].in_flight.push_back(event);
        schedule(now + propagation(event), Kind::Signal, w, event, from);
    }

    [[nodiscard]] double propagation(EventId event) const {
        if (event.index() >= plan_.events.size()) return machine_.word_us;
        switch (plan_.events[event.index()].kind) {
            case HandOff::SameWorker:
            case HandOff::Words:
                return 0;
            case HandOff::Counter:
                return machine_.counter_us;
            case HandOff::Barrier:
                return machine_.barrier_us;
        }
        return 0;
    }

    void finish() {
        TaskId last;
        for (std::size_t w = 0; w < states_.size(); ++w) {
            ensure(states_[w].step == plan_.workers[w].queue.size(),
                   "simulate: the plan blocks; verify it first");
            if (plan_.workers[w].queue.empty()) continue;
            const TaskId end = plan_.workers[w].queue.back().task;
            if (!last.valid() || result_.tasks[end.index()].end > result_.total) {
                last = end;
                result_.total = result_.tasks[end.index()].end;
            }
        }
        result_.bus_idle = std::max(result_.total - bus_.busy_time(), 0.0);
        for (TaskId task = last; task.valid(); task = decided_by_[task.index()]) {
            const TaskId before = decided_by_[task.index()];
            result_.critical_path.push_back(task);
            if (before.valid() && worker_of_[before.index()] != worker_of_[task.index()]) ++result_.hand_offs;
        }
        std::reverse(result_.critical_path.begin(), result_.critical_path.end());
    }

    struct Waiter {
        std::uint32_t target = 0;
        std::size_t worker = 0;
    };

    const Plan& plan_;
    const Machine& machine_;
    verifying::WordWaits words_;
    WorkEstimate estimate_;
    Bus bus_;
    std::vector<State> states_;
    // By event; behind the plan's events, one for each set of words, to which every writer of the set signals.
    std::vector<std::uint32_t> counts_;
    std::vector<std::vector<Waiter>> waiters_;
    std::vector<std::size_t> worker_of_;  ///< by task
    std::vector<TaskId> decided_by_;      ///< by task: what its start waited for last
    std::uint64_t number_ = 0;
    std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
    Simulation result_;
};

}  // namespace

Simulation simulate(const Plan& plan, const Machine& machine) { return Simulator(plan, machine).run(); }

}  // namespace stretto
