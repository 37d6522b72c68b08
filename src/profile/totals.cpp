#include "profile/totals.h"

#include <algorithm>
#include <map>

#include "profile/names.h"

namespace stretto {
namespace {

constexpr double kStraggler = 2;  ///< times the median

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

template <class Items, class Member>
double median_of(const Items& items, Member&& member) {
    std::vector<double> values;
    for (const auto& item : items) values.push_back(member(item));
    return median(std::move(values));
}

double running(const TaskTimes& task) { return task.computed - task.ready; }

void add_tasks(Phase& phase, const std::vector<TaskId>& tasks, const Trace& trace) {
    std::vector<TaskTimes> times;
    for (const TaskId task : tasks) times.push_back(trace.tasks[task.index()]);
    phase.tasks = tasks.size();
    phase.median.wait = median_of(times, [](const TaskTimes& t) { return t.ready - t.begun; });
    phase.median.stage = median_of(times, [](const TaskTimes& t) { return t.staged - t.ready; });
    phase.median.compute = median_of(times, [](const TaskTimes& t) { return t.computed - t.staged; });
    phase.median.stalled = median_of(times, [](const TaskTimes& t) { return t.stalled; });
    phase.publish = median_of(times, [](const TaskTimes& t) { return t.published - t.computed; });
    const double usual = median_of(times, running);
    for (const TaskId task : tasks) {
        const double took = running(trace.tasks[task.index()]);
        phase.sum_running += took;
        phase.slowest = std::max(phase.slowest, took);
        if (took > kStraggler * usual) phase.stragglers.push_back(task);
    }
}

void add_hops(Phase& phase, const std::vector<Hop>& hops) {
    phase.hops = hops.size();
    for (const Hop& hop : hops) phase.sum_hops += hop.total();
    phase.hop_total = median_of(hops, [](const Hop& hop) { return hop.total(); });
    for (double Hop::*part :
         {&Hop::wait, &Hop::stage, &Hop::compute, &Hop::stalled, &Hop::publish, &Hop::simulated}) {
        phase.hop.*part = median_of(hops, [part](const Hop& hop) { return hop.*part; });
    }
}

}  // namespace

MeanWorker mean_worker(const Plan& plan, const Trace& trace) {
    MeanWorker mean;
    const double share = 1 / static_cast<double>(std::max<std::size_t>(plan.workers.size(), 1));
    for (const Worker& worker : plan.workers) {
        double free_at = 0;
        for (const Step& step : worker.queue) {
            const TaskTimes& times = trace.tasks[step.task.index()];
            const std::size_t kind = plan.graph.regions[plan.graph[step.task].region].body.index();
            mean.idle += share * (times.begun - free_at);
            mean.kinds[kind].wait += share * (times.ready - times.begun);
            mean.kinds[kind].stage += share * (times.staged - times.ready);
            mean.kinds[kind].compute += share * (times.computed - times.staged);
            mean.kinds[kind].stalled += share * times.stalled;
            mean.tasks[kind] += share;
            free_at = times.computed;
        }
        mean.idle += share * (trace.total - free_at);
    }
    return mean;
}

std::vector<Phase> phases(const Plan& plan, const Trace& trace, const std::vector<Hop>& path) {
    const std::vector<std::string> names = phase_names(plan.graph.regions);
    std::vector<Phase> result;
    std::map<std::string, std::size_t> place;
    std::vector<std::vector<TaskId>> tasks;
    for (std::size_t r = 0; r < names.size(); ++r) {
        const auto [at, is_new] = place.try_emplace(names[r], result.size());
        if (is_new) {
            result.push_back({.name = names[r], .median = {}, .stragglers = {}, .hop = {}});
            tasks.emplace_back();
        }
        const Range range = plan.graph.tasks_of[r];
        for (std::int64_t t = range.begin; t < range.end; ++t) tasks[at->second].emplace_back(t);
    }
    std::vector<std::vector<Hop>> hops(result.size());
    for (const Hop& hop : path) hops[place.at(names[plan.graph[hop.task].region.index()])].push_back(hop);
    for (std::size_t p = 0; p < result.size(); ++p) {
        add_tasks(result[p], tasks[p], trace);
        add_hops(result[p], hops[p]);
    }
    return result;
}

}  // namespace stretto
