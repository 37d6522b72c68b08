#include "profile/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "profile/bus_time.h"
#include "profile/names.h"
#include "profile/totals.h"

namespace stretto {
namespace {

constexpr std::size_t kMostPhases = 16;
constexpr std::size_t kMostStragglers = 6;

using Text = std::back_insert_iterator<std::string>;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

class Page {
public:
    Page(const Plan& plan, const Trace& trace, const Machine& machine)
        : plan_(plan),
          trace_(trace),
          machine_(machine),
          simulation_(simulate(plan, machine)),
          path_(critical_path(plan, trace, simulation_)),
          out_(std::back_inserter(text_)) {}

    std::string write() {
        totals();
        worker();
        const std::vector<Phase> all = phases(plan_, trace_, path_);
        critical_path_by_phase(all);
        tasks(all);
        stragglers(all);
        return std::move(text_);
    }

    std::string write_hops() {
        fmt::format_to(out_, "measured critical path, {} tasks on {}, {:.1f} us; simulated {:.1f} us\n",
                       path_.size(), trace_.backend, trace_.total, simulation_.total);
        fmt::format_to(out_, "  {:>9} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} {:>9}  {}\n", "end us", "hop",
                       "wait", "stage", "compute", "(loads)", "publish", "simulated", "task");
        double end = 0;
        for (const Hop& hop : path_) {
            end += hop.total();
            fmt::format_to(out_,
                           "  {:>9.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>8.2f} {:>8} {:>8.2f} {:>9.2f}  {}{}\n",
                           end, hop.total(), hop.wait, hop.stage, hop.compute,
                           fmt::format("({:.2f})", hop.stalled), hop.publish, hop.simulated,
                           task_name(hop.task, hop.worker), hop.handed_over ? ", handed over" : "");
        }
        return std::move(text_);
    }

private:
    void totals() {
        fmt::format_to(out_, "a launch on {}: {:.1f} us measured, {:.1f} us simulated\n", trace_.backend,
                       trace_.total, simulation_.total);
        fmt::format_to(out_, "  clocks of two workers agree to {:.3f} us\n", trace_.tick);
        if (const auto bus = bus_time(plan_, trace_, machine_)) {
            fmt::format_to(out_,
                           "  memory bus idle {:.1f} us ({:.0f} %; simulated {:.1f} us), estimated from when "
                           "loads were issued\n",
                           bus->idle, percent(bus->idle, trace_.total), simulation_.bus_idle);
        }
    }

    void worker() {
        const MeanWorker mean = mean_worker(plan_, trace_);
        constexpr const char* kRow =
            "  {:<10} {:>7.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9} {:>9.1f} {:>6.1f} %\n";
        fmt::format_to(out_,
                       "an average worker, us; in brackets the part of 'compute' that waits for loads\n"
                       "  {:<10} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                       "kind", "tasks", "wait", "stage", "compute", "(loads)", "sum");
        const auto row = [&](const char* name, double tasks, const Parts& parts) {
            fmt::format_to(out_, fmt::runtime(kRow), name, tasks, parts.wait, parts.stage, parts.compute,
                           fmt::format("({:.1f})", parts.stalled), parts.total(),
                           percent(parts.total(), trace_.total));
        };
        for (std::size_t kind = 0; kind < mean.kinds.size(); ++kind) {
            if (mean.tasks[kind] > 0) row(kKindNames[kind], mean.tasks[kind], mean.kinds[kind]);
        }
        fmt::format_to(out_, "  {:<10} {:>57.1f} {:>6.1f} %\n", "no task", mean.idle,
                       percent(mean.idle, trace_.total));
    }

    void critical_path_by_phase(const std::vector<Phase>& all) {
        const auto crossings =
            std::count_if(path_.begin(), path_.end(), [](const Hop& h) { return h.handed_over; });
        fmt::format_to(out_,
                       "critical path: {} tasks, {} handed over between workers; us, medians of each phase\n",
                       path_.size(), crossings);
        fmt::format_to(out_, "  {:>7} {:>5} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} {:>9}  {}\n", "share", "hops",
                       "hop", "wait", "stage", "compute", "(loads)", "publish", "simulated", "phase");
        for (const Phase* phase : largest(all, &Phase::sum_hops)) {
            fmt::format_to(
                out_, "  {:>5.1f} % {:>5} {:>7.2f} {:>7.2f} {:>7.2f} {:>8.2f} {:>8} {:>8.2f} {:>9.2f}  {}\n",
                percent(phase->sum_hops, trace_.total), phase->hops, phase->hop_total, phase->hop.wait,
                phase->hop.stage, phase->hop.compute, fmt::format("({:.2f})", phase->hop.stalled),
                phase->hop.publish, phase->hop.simulated, phase->name);
        }
    }

    void tasks(const std::vector<Phase>& all) {
        fmt::format_to(out_,
                       "all tasks, phases that keep workers longest first; us, medians of each phase\n");
        fmt::format_to(out_, "  {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>10}  {}\n", "tasks", "wait",
                       "stage", "compute", "(loads)", "publish", "slowest", "stragglers", "phase");
        for (const Phase* phase : largest(all, &Phase::sum_running)) {
            fmt::format_to(out_, "  {:>7} {:>7.2f} {:>7.2f} {:>8.2f} {:>8} {:>8.2f} {:>8.2f} {:>10}  {}\n",
                           phase->tasks, phase->median.wait, phase->median.stage, phase->median.compute,
                           fmt::format("({:.2f})", phase->median.stalled), phase->publish, phase->slowest,
                           phase->stragglers.size(), phase->name);
        }
    }

    /// Those with the largest sums; none whose sum is 0.
    static std::vector<const Phase*> largest(const std::vector<Phase>& all, double Phase::*sum) {
        std::vector<const Phase*> sorted;
        for (const Phase& phase : all) {
            if (phase.*sum > 0) sorted.push_back(&phase);
        }
        std::stable_sort(sorted.begin(), sorted.end(),
                         [sum](const Phase* a, const Phase* b) { return a->*sum > b->*sum; });
        sorted.resize(std::min(sorted.size(), kMostPhases));
        return sorted;
    }

    void stragglers(const std::vector<Phase>& all) {
        std::vector<TaskId> found;
        for (const Phase& phase : all)
            found.insert(found.end(), phase.stragglers.begin(), phase.stragglers.end());
        fmt::format_to(out_, "stragglers, over twice their phase's median from ready to computed: {}\n",
                       found.size());
        const auto took = [&](TaskId task) {
            const TaskTimes& times = trace_.tasks[task.index()];
            return times.computed - times.ready;
        };
        std::stable_sort(found.begin(), found.end(), [&](TaskId a, TaskId b) { return took(a) > took(b); });
        found.resize(std::min(found.size(), kMostStragglers));
        std::vector<std::size_t> worker_of(trace_.tasks.size());
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
            for (const Step& step : plan_.workers[w].queue) worker_of[step.task.index()] = w;
        }
        for (const TaskId task : found) {
            fmt::format_to(out_, "  {:>7.2f} us at {:>9.2f}  {}\n", took(task),
                           trace_.tasks[task.index()].ready, task_name(task, worker_of[task.index()]));
        }
    }

    [[nodiscard]] std::string task_name(TaskId task, std::size_t worker) const {
        return fmt::format("#{} {} on worker {}", task.value,
                           plan_.graph.regions[plan_.graph[task].region].name, worker);
    }

    const Plan& plan_;
    const Trace& trace_;
    const Machine& machine_;
    Simulation simulation_;
    std::vector<Hop> path_;
    std::string text_;
    Text out_;
};

}  // namespace

std::string summary(const Plan& plan, const Trace& trace, const Machine& machine) {
    return Page(plan, trace, machine).write();
}

std::string hop_report(const Plan& plan, const Trace& trace, const Machine& machine) {
    return Page(plan, trace, machine).write_hops();
}

}  // namespace stretto
