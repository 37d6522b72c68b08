#include "cost/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "cost/simulate.h"

namespace stretto {
namespace {

constexpr std::size_t kMostHops = 400;

using Text = std::back_insert_iterator<std::string>;

const char* hand_off_name(HandOff kind) {
    constexpr std::array<const char*, 4> kNames{"same worker", "counter", "barrier", "words"};
    return kNames.at(static_cast<std::size_t>(kind));
}

std::string bytes_text(double bytes) {
    if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
    if (bytes >= 1e3) return fmt::format("{:.1f} kB", bytes / 1e3);
    return fmt::format("{:.0f} B", bytes);
}

class Report {
public:
    Report(const Plan& plan, const Machine& machine)
        : plan_(plan), simulation_(simulate(plan, machine)), out_(std::back_inserter(text_)) {
        for (std::size_t w = 0; w < plan.workers.size(); ++w) {
            for (const Load& load : plan.workers[w].stream) streamed_ += static_cast<double>(load.bytes());
        }
        fmt::format_to(out_, "plan for {}, predicted on {}\n", plan.machine, machine.name);
    }

    std::string write() {
        totals();
        hand_offs();
        copies();
        regions();
        critical_path();
        return std::move(text_);
    }

private:
    void totals() {
        const TaskGraph& graph = plan_.graph;
        fmt::format_to(out_, "  {} regions, {} tasks on {} workers, {} events\n",
                       graph.regions.regions.size(), graph.tasks.size(), plan_.workers.size(),
                       plan_.events.size());
        fmt::format_to(out_, "  streamed {}, bound {}, arena {}\n", bytes_text(streamed_),
                       bytes_text(bound_bytes()), bytes_text(static_cast<double>(plan_.arena_bytes)));
        fmt::format_to(out_, "  ring of {} slots of {} B and {} B of scratch a worker\n", plan_.shared.slots,
                       plan_.shared.slot_bytes, plan_.shared.scratch_bytes);
        const double total = simulation_.total;
        fmt::format_to(out_, "  predicted {:.1f} us; memory bus idle {:.1f} us ({:.0f} %)\n", total,
                       simulation_.bus_idle, total > 0 ? 100 * simulation_.bus_idle / total : 0.0);
    }

    [[nodiscard]] double bound_bytes() const {
        double bytes = 0;
        for (const Buffer& buffer : plan_.graph.regions.buffers) {
            const bool bound = buffer.role == BufferRole::Parameter || buffer.role == BufferRole::Constant;
            if (bound) bytes += static_cast<double>(buffer.size_bytes());
        }
        return bytes;
    }

    void hand_offs() {
        std::array<std::size_t, 4> edges{};
        for (const Edge& edge : plan_.edges) ++edges.at(static_cast<std::size_t>(edge.kind));
        fmt::format_to(out_, "hand-offs between regions\n");
        for (const HandOff kind : {HandOff::SameWorker, HandOff::Words, HandOff::Counter, HandOff::Barrier}) {
            fmt::format_to(out_, "  {:<12}{:>6}\n", hand_off_name(kind),
                           edges.at(static_cast<std::size_t>(kind)));
        }
        fmt::format_to(out_, "  {} between workers on the critical path\n", simulation_.hand_offs);
    }

    /// A map that only loads and stores exists because no index map could express the view.
    void copies() {
        fmt::format_to(out_, "copies, made where no view expresses a reshape\n");
        bool any = false;
        for (const Region& region : plan_.graph.regions.regions) {
            const auto* map = std::get_if<MapRegion>(&region.body);
            if (map == nullptr) continue;
            for (const Store& store : map->stores) {
                if (!is_copy(store)) continue;
                any = true;
                const double bytes =
                    static_cast<double>(volume(map->space)) * static_cast<double>(size_of(store.target.type));
                fmt::format_to(out_, "  {} of {}\n", bytes_text(bytes), region.name);
            }
        }
        if (!any) fmt::format_to(out_, "  none\n");
    }

    static bool is_copy(const Store& store) {
        return store.indices.empty() && store.expr.nodes.size() == 1 &&
               store.expr.nodes.front().op == Op::Load && store.expr.type() == store.target.type;
    }

    void regions() {
        fmt::format_to(out_, "regions\n  {:>6} {:>8} {:>9} {:>9}  {:<10}{}\n", "tasks", "workers", "start us",
                       "end us", "kind", "name");
        const std::vector<std::size_t> worker_of = workers_by_task();
        for (std::size_t r = 0; r < plan_.graph.tasks_of.size(); ++r) {
            const Range tasks = plan_.graph.tasks_of[r];
            double start = simulation_.total;
            double end = 0;
            std::set<std::size_t> workers;
            for (std::int64_t t = tasks.begin; t < tasks.end; ++t) {
                const auto index = static_cast<std::size_t>(t);
                start = std::min(start, simulation_.tasks[index].start);
                end = std::max(end, simulation_.tasks[index].end);
                workers.insert(worker_of[index]);
            }
            const Region& region = plan_.graph.regions.regions[r];
            fmt::format_to(out_, "  {:>6} {:>8} {:>9.2f} {:>9.2f}  {:<10}{}\n", tasks.size(), workers.size(),
                           start, end, kKindNames.at(region.body.index()), region.name);
        }
    }

    [[nodiscard]] std::vector<std::size_t> workers_by_task() const {
        std::vector<std::size_t> worker_of(plan_.graph.tasks.size(), 0);
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
            for (const Step& step : plan_.workers[w].queue) worker_of[step.task.index()] = w;
        }
        return worker_of;
    }

    void critical_path() {
        const auto& path = simulation_.critical_path;
        fmt::format_to(out_, "critical path, {} tasks\n  {:>9} {:>9} {:>9}  {}\n", path.size(), "start us",
                       "end us", "gap us", "task");
        const std::vector<std::size_t> worker_of = workers_by_task();
        double before = 0;
        for (std::size_t i = 0; i < std::min(path.size(), kMostHops); ++i) {
            const std::size_t task = path[i].index();
            const auto& span = simulation_.tasks[task];
            const bool crosses = i > 0 && worker_of[path[i - 1].index()] != worker_of[task];
            fmt::format_to(out_, "  {:>9.2f} {:>9.2f} {:>9.2f}  #{} {} on worker {}{}\n", span.start,
                           span.end, span.start - before, task,
                           plan_.graph.regions[plan_.graph.tasks[task].region].name, worker_of[task],
                           crosses ? ", handed over" : "");
            before = span.end;
        }
        if (path.size() > kMostHops) fmt::format_to(out_, "  and {} more\n", path.size() - kMostHops);
    }

    const Plan& plan_;
    Simulation simulation_;
    std::string text_;
    Text out_;
    double streamed_ = 0;
};

}  // namespace

std::string explain(const Plan& plan, const Machine& machine) { return Report(plan, machine).write(); }

}  // namespace stretto
