#include "profile/stamps.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace stretto {
namespace {

/// One worker's SM clock on the timer that all workers share.
class WorkerClock {
public:
    WorkerClock(const abi::WorkerStamps& stamps, abi::U64 origin) : begin_(stamps.begin) {
        const abi::ClockPair& end = stamps.end;
        ensure(end.cycles > begin_.cycles && end.timer > begin_.timer,
               "a traced worker's clocks stand still");
        offset_ = microseconds(begin_.timer - origin);
        per_cycle_ = microseconds(end.timer - begin_.timer) / static_cast<double>(end.cycles - begin_.cycles);
    }

    [[nodiscard]] double at(abi::U64 cycles) const {
        // The difference is signed: a load may be issued before the clocks are read.
        const auto since = static_cast<std::int64_t>(cycles - begin_.cycles);
        return offset_ + per_cycle_ * static_cast<double>(since);
    }
    [[nodiscard]] double duration(abi::U64 cycles) const { return per_cycle_ * static_cast<double>(cycles); }

private:
    static double microseconds(abi::U64 nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

    abi::ClockPair begin_;
    double offset_ = 0;
    double per_cycle_ = 0;
};

TaskTimes times_of(const abi::TaskStamps& stamps, const WorkerClock& clock) {
    ensure(stamps.published != 0, "a task of a traced launch has no stamps");
    // Words may be polled as late as by the stores; a task is ready with those that it stages.
    const abi::U64 ready = stamps.staged == 0 ? stamps.ready : std::min(stamps.ready, stamps.staged);
    const abi::U64 staged = stamps.staged == 0 ? ready : stamps.staged;
    return {clock.at(stamps.begun),     clock.at(ready),
            clock.at(staged),           clock.at(stamps.computed),
            clock.at(stamps.published), clock.duration(stamps.stalled)};
}

}  // namespace

Trace align(const Stamps& stamps, const Plan& plan) {
    ensure(stamps.workers.size() == plan.workers.size() && stamps.tasks.size() == plan.graph.tasks.size(),
           "stamps of another plan");
    Trace trace;
    trace.backend = "cuda";
    trace.tasks.resize(stamps.tasks.size());
    abi::U64 origin = std::numeric_limits<abi::U64>::max();
    for (const abi::WorkerStamps& worker : stamps.workers) origin = std::min(origin, worker.begin.timer);
    std::size_t load = 0;
    for (std::size_t w = 0; w < plan.workers.size(); ++w) {
        const abi::WorkerStamps& worker = stamps.workers[w];
        const WorkerClock clock(worker, origin);
        for (const abi::ClockPair& pair : {worker.begin, worker.end}) {
            trace.tick = std::max(trace.tick, static_cast<double>(pair.step) * 1e-3);
        }
        for (const Step& step : plan.workers[w].queue) {
            trace.tasks[step.task.index()] = times_of(stamps.tasks[step.task.index()], clock);
        }
        trace.loads.emplace_back();
        for (std::size_t i = 0; i < plan.workers[w].stream.size(); ++i) {
            trace.loads.back().push_back(clock.at(stamps.loads.at(load++)));
        }
    }
    start_at_zero(trace);
    return trace;
}

void start_at_zero(Trace& trace) {
    double first = std::numeric_limits<double>::max();
    for (const TaskTimes& task : trace.tasks) first = std::min(first, task.begun);
    for (const std::vector<double>& worker : trace.loads) {
        for (double issued : worker) first = std::min(first, issued);
    }
    trace.total = 0;
    for (TaskTimes& task : trace.tasks) {
        for (double TaskTimes::*moment : {&TaskTimes::begun, &TaskTimes::ready, &TaskTimes::staged,
                                          &TaskTimes::computed, &TaskTimes::published}) {
            task.*moment -= first;
        }
        trace.total = std::max(trace.total, task.published);
    }
    for (std::vector<double>& worker : trace.loads) {
        for (double& issued : worker) issued -= first;
    }
}

}  // namespace stretto
