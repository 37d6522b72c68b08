#include "cost/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "cost/simulate.h"
#include "schedule/loads.h"

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
        padded_rows();
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
        const auto packed = static_cast<double>(packed_bytes(plan_));
        fmt::format_to(out_, "  streamed {}{}, bound {}, arena {}\n", bytes_text(streamed_),
                       packed > 0 ? fmt::format(" (as packed copies {})", bytes_text(packed)) : "",
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

    /// Nobody writes the end of their rows, which are longer so that the next one begins where a whole access does.
    void padded_rows() {
        std::vector<Shape> written(plan_.graph.regions.buffers.size());
        for (const Task& task : plan_.graph.tasks) {
            for (const Footprint& write : task.writes) {
                Shape& ends = written[write.buffer.index()];
                ends.resize(write.box.size(), 0);
                for (std::size_t d = 0; d < ends.size(); ++d) ends[d] = std::max(ends[d], write.box[d].end);
            }
        }
        bool any = false;
        for (std::size_t b = 0; b < written.size(); ++b) {
            const Buffer& buffer = plan_.graph.regions.buffers[b];
            if (buffer.role != BufferRole::Arena || written[b].empty() || written[b] == buffer.shape)
                continue;
            if (!any) fmt::format_to(out_, "padded rows, which begin where an access of 16 bytes may\n");
            any = true;
            fmt::format_to(out_, "  [{}] in [{}] of {}\n", fmt::join(written[b], ", "),
                           fmt::join(buffer.shape, ", "), buffer.name);
        }
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

    /// One task of the critical path, and what it waited for.
    struct Hop {
        std::size_t task = 0;
        HandOff kind = HandOff::SameWorker;  ///< how the task before handed over to it
        double gap = 0;                      ///< us, from the end of that one
    };

    [[nodiscard]] std::vector<Hop> hops(const std::vector<std::size_t>& worker_of) const {
        std::vector<const Step*> steps(plan_.graph.tasks.size());
        for (const Worker& worker : plan_.workers) {
            for (const Step& step : worker.queue) steps[step.task.index()] = &step;
        }
        std::vector<Hop> hops;
        double before = 0;
        for (std::size_t i = 0; i < simulation_.critical_path.size(); ++i) {
            Hop hop{simulation_.critical_path[i].index()};
            hop.gap = simulation_.tasks[hop.task].start - before;
            before = simulation_.tasks[hop.task].end;
            if (i > 0 && worker_of[hops.back().task] != worker_of[hop.task]) {
                hop.kind = hand_off_between(*steps[hops.back().task], *steps[hop.task]);
            }
            hops.push_back(hop);
        }
        return hops;
    }

    /// Of two workers: an event that the one signals and the other waits for, else words.
    [[nodiscard]] HandOff hand_off_between(const Step& from, const Step& to) const {
        for (const Wait& wait : to.waits) {
            const bool signalled =
                std::find(from.signals.begin(), from.signals.end(), wait.event) != from.signals.end();
            if (signalled) return plan_.events[wait.event.index()].kind;
        }
        return HandOff::Words;
    }

    void critical_path() {
        const std::vector<std::size_t> worker_of = workers_by_task();
        const std::vector<Hop> path = hops(worker_of);
        fmt::format_to(out_, "critical path, {} tasks\n", path.size());
        shares_of_path(path);
        fmt::format_to(out_, "  {:>9} {:>9} {:>9}  {}\n", "start us", "end us", "gap us", "task");
        for (std::size_t i = 0; i < std::min(path.size(), kMostHops); ++i) {
            const auto& [task, kind, gap] = path[i];
            const auto& span = simulation_.tasks[task];
            const std::string way =
                kind == HandOff::SameWorker ? "" : fmt::format(", after a hand-off: {}", hand_off_name(kind));
            fmt::format_to(out_, "  {:>9.2f} {:>9.2f} {:>9.2f}  #{} {} on worker {}{}\n", span.start,
                           span.end, gap, task, plan_.graph.regions[plan_.graph.tasks[task].region].name,
                           worker_of[task], way);
        }
        if (path.size() > kMostHops) fmt::format_to(out_, "  and {} more\n", path.size() - kMostHops);
    }

    /// How much of the path are tasks, and how much each kind of hand-off.
    void shares_of_path(const std::vector<Hop>& path) {
        double tasks = 0;
        std::array<double, 4> gaps{};
        std::array<std::size_t, 4> counts{};
        for (const Hop& hop : path) {
            tasks += simulation_.tasks[hop.task].end - simulation_.tasks[hop.task].start;
            gaps.at(static_cast<std::size_t>(hop.kind)) += hop.gap;
            ++counts.at(static_cast<std::size_t>(hop.kind));
        }
        fmt::format_to(out_, "  {:>9.2f} us in its tasks\n", tasks);
        for (const HandOff kind : {HandOff::SameWorker, HandOff::Words, HandOff::Counter, HandOff::Barrier}) {
            const auto index = static_cast<std::size_t>(kind);
            if (counts.at(index) == 0) continue;
            fmt::format_to(out_, "  {:>9.2f} us before {} of them: {}\n", gaps.at(index), counts.at(index),
                           hand_off_name(kind));
        }
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
