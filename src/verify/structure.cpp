#include "verify/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/machine.h"
#include "base/machine_files.h"
#include "verify/boxes.h"

namespace stretto::verifying {
namespace {

using Kind = Fault::Kind;

constexpr std::int64_t kAlignment = 256;

/// Regions, buffers and tasks: everything that later checks index with.
class TableCheck {
public:
    TableCheck(const Plan& plan, FaultList& faults) : plan_(plan), faults_(faults) {}

    bool run() {
        buffers();
        regions();
        if (sound_) tasks();
        return sound_;
    }

private:
    void broken(std::string message) {
        sound_ = false;
        faults_.add(Kind::Malformed, std::move(message));
    }

    void buffers() {
        const auto& all = plan_.graph.regions.buffers;
        for (const Buffer& buffer : all) {
            const bool negative = std::any_of(buffer.shape.begin(), buffer.shape.end(),
                                              [](std::int64_t extent) { return extent < 0; });
            if (negative) broken(fmt::format("buffer '{}' has a negative extent", buffer.name));
        }
        if (plan_.offsets.size() != all.size()) {
            broken(fmt::format("{} arena offsets for {} buffers: run the memory stage first",
                               plan_.offsets.size(), all.size()));
        }
    }

    /// tasks_of must cut the tasks into one run for each region, in order.
    void regions() {
        const TaskGraph& graph = plan_.graph;
        if (graph.tasks_of.size() != graph.regions.regions.size()) {
            broken(fmt::format("{} task ranges for {} regions", graph.tasks_of.size(),
                               graph.regions.regions.size()));
            return;
        }
        std::int64_t next = 0;
        const auto count = static_cast<std::int64_t>(graph.tasks.size());
        for (std::size_t r = 0; r < graph.tasks_of.size(); ++r) {
            const Range range = graph.tasks_of[r];
            if (range.begin != next || range.end < range.begin || range.end > count) {
                broken(fmt::format(
                    "region '{}' claims tasks [{}, {}), expected them to begin at {} and to end by {}",
                    graph.regions.regions[r].name, range.begin, range.end, next, count));
                return;
            }
            for (std::int64_t t = range.begin; t < range.end; ++t) {
                if (graph.tasks[static_cast<std::size_t>(t)].region !=
                    RegionId(static_cast<std::int64_t>(r))) {
                    broken(
                        fmt::format("task #{} lies among the tasks of region '{}' and names another region",
                                    t, graph.regions.regions[r].name));
                }
            }
            next = range.end;
        }
        if (next != count) broken(fmt::format("tasks from #{} on belong to no region", next));
    }

    void tasks() {
        for (std::size_t t = 0; t < plan_.graph.tasks.size(); ++t) {
            const TaskId id(static_cast<std::int64_t>(t));
            const Task& task = plan_.graph.tasks[t];
            for (const Footprint& read : task.reads) footprint(id, read, "reads");
            for (const Footprint& write : task.writes) {
                footprint(id, write, "writes");
                if (sound_) writable(id, write);
            }
            after(id, task);
        }
    }

    void footprint(TaskId task, const Footprint& print, const char* verb) {
        const auto& buffers = plan_.graph.regions.buffers;
        if (!print.buffer.valid() || print.buffer.index() >= buffers.size()) {
            broken(fmt::format("{} {} buffer number {}, and there are {}", task_name(plan_, task), verb,
                               print.buffer.value, buffers.size()));
            return;
        }
        const Buffer& buffer = buffers[print.buffer.index()];
        if (print.box.size() != buffer.shape.size()) {
            broken(fmt::format("{} {} a box of rank {} of '{}', which has rank {}", task_name(plan_, task),
                               verb, print.box.size(), buffer.name, buffer.shape.size()));
            return;
        }
        if (is_empty(print.box) || contains(whole(buffer.shape), print.box)) return;
        sound_ = false;
        faults_.add(Kind::OutOfBounds,
                    fmt::format("{} {} {} of '{}', whose shape is {}", task_name(plan_, task), verb,
                                box_name(print.box), buffer.name, box_name(whole(buffer.shape))));
    }

    void writable(TaskId task, const Footprint& write) {
        const Buffer& buffer = plan_.graph.regions[write.buffer];
        const bool allowed = buffer.role == BufferRole::Arena || buffer.role == BufferRole::State ||
                             buffer.role == BufferRole::Output;
        if (allowed) return;
        faults_.add(Kind::Malformed, fmt::format("{} writes '{}', which a program may only read",
                                                 task_name(plan_, task), buffer.name));
    }

    void after(TaskId id, const Task& task) {
        const std::int64_t first = plan_.graph.tasks_of[task.region.index()].begin;
        for (Range range : task.after) {
            if (range.begin >= 0 && range.begin <= range.end && range.end <= first) continue;
            faults_.add(Kind::Dependency,
                        fmt::format("{} comes after tasks [{}, {}), which are not all of earlier regions",
                                    task_name(plan_, id), range.begin, range.end));
        }
    }

    const Plan& plan_;
    FaultList& faults_;
    bool sound_ = true;
};

/// Queues, waits, signals and events.
class QueueCheck {
public:
    QueueCheck(const Plan& plan, FaultList& faults)
        : plan_(plan), faults_(faults), places_(plan.graph.tasks.size(), 0), sent_(plan.events.size(), 0) {}

    bool run() {
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
            for (const Step& step : plan_.workers[w].queue) check(step, w);
        }
        for (std::size_t t = 0; t < places_.size(); ++t) {
            if (places_[t] == 1) continue;
            const std::string name = task_name(plan_, TaskId(static_cast<std::int64_t>(t)));
            broken(places_[t] == 0 ? fmt::format("{} is on no worker", name)
                                   : fmt::format("{} is scheduled {} times", name, places_[t]));
        }
        if (sound_) totals();
        return sound_;
    }

private:
    void broken(std::string message) {
        sound_ = false;
        faults_.add(Kind::Malformed, std::move(message));
    }

    bool known(EventId event, const Step& step, const char* verb) {
        if (event.valid() && event.index() < plan_.events.size()) return true;
        broken(fmt::format("{} {} event number {}, and there are {}", task_name(plan_, step.task), verb,
                           event.value, plan_.events.size()));
        return false;
    }

    void check(const Step& step, std::size_t worker) {
        if (!step.task.valid() || step.task.index() >= places_.size()) {
            broken(fmt::format("worker {} queues task number {}, and there are {}", worker, step.task.value,
                               places_.size()));
            return;
        }
        ++places_[step.task.index()];
        for (const Wait& wait : step.waits) known(wait.event, step, "waits for");
        for (EventId event : step.signals) {
            if (known(event, step, "signals")) ++sent_[event.index()];
        }
        limit(step, step.waits.size(), kMaxWaits, "waits");
        limit(step, step.signals.size(), kMaxSignals, "signals");
    }

    void limit(const Step& step, std::size_t count, std::size_t most, const char* what) {
        if (count <= most) return;
        faults_.add(Kind::Capacity, fmt::format("{} has {} {}, and a record holds {}",
                                                task_name(plan_, step.task), count, what, most));
    }

    /// The declared total is the base of the next launch's counting, so it must be what the queues really
    /// send.
    void totals() {
        for (std::size_t e = 0; e < sent_.size(); ++e) {
            const std::string name = event_name(plan_, EventId(static_cast<std::int64_t>(e)));
            if (sent_[e] != plan_.events[e].signals) {
                faults_.add(Kind::Malformed,
                            fmt::format("{} declares {} signals a launch, and the queues send {}", name,
                                        plan_.events[e].signals, sent_[e]));
            }
            if (sent_[e] > std::numeric_limits<std::int32_t>::max()) {
                faults_.add(Kind::Capacity,
                            name + " counts so far in one launch that its wrap cannot be told");
            }
        }
    }

    const Plan& plan_;
    FaultList& faults_;
    std::vector<int> places_;
    std::vector<std::uint64_t> sent_;
    bool sound_ = true;
};

/// Every arena buffer that a task touches lies inside the arena, aligned.
bool check_offsets(const Plan& plan, FaultList& faults) {
    std::set<BufferId> touched;
    for (const Task& task : plan.graph.tasks) {
        for (const auto* prints : {&task.reads, &task.writes}) {
            for (const Footprint& print : *prints) touched.insert(print.buffer);
        }
    }
    bool inside = true;
    for (BufferId id : touched) {
        const Buffer& buffer = plan.graph.regions[id];
        if (buffer.role != BufferRole::Arena) continue;
        const std::int64_t offset = plan.offsets[id.index()];
        if (offset < 0 || offset + buffer.size_bytes() > plan.arena_bytes) {
            inside = false;
            faults.add(Kind::OutOfBounds,
                       fmt::format("buffer '{}' at arena bytes [{}, {}), and the arena has {} bytes",
                                   buffer.name, offset, offset + buffer.size_bytes(), plan.arena_bytes));
        } else if (offset % kAlignment != 0) {
            faults.add(Kind::Malformed,
                       fmt::format("buffer '{}' at arena offset {}, which is no multiple of {}", buffer.name,
                                   offset, kAlignment));
        }
    }
    return inside;
}

void check_shared(const Plan& plan, FaultList& faults) {
    const SharedLayout& shared = plan.shared;
    if (shared.slots < 0 || shared.slot_bytes < 0 || shared.scratch_bytes < 0) {
        faults.add(Kind::Malformed, "the shared memory layout has a negative size");
        return;
    }
    for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t) {
        const Task& task = plan.graph.tasks[t];
        const std::int64_t needed = scratch_bytes(plan.graph.regions[task.region], task.tile, shared.warps);
        if (needed <= shared.scratch_bytes) continue;
        faults.add(Kind::Capacity, fmt::format("{} needs {} bytes of scratch, and the plan has {}",
                                               task_name(plan, TaskId(static_cast<std::int64_t>(t))), needed,
                                               shared.scratch_bytes));
    }
}

/// A plan for a machine that this library knows must fit that machine.
void check_machine(const Plan& plan, FaultList& faults) {
    const auto known = [&](const MachineFile& file) { return file.name == plan.machine; };
    const auto files = machine_files();
    if (std::none_of(files.begin(), files.end(), known)) return;
    const Machine machine = builtin_machine(plan.machine);
    const std::int64_t bytes = plan.shared.slots * plan.shared.slot_bytes + plan.shared.scratch_bytes;
    if (bytes > machine.shared_bytes) {
        faults.add(Kind::Capacity,
                   fmt::format("the plan uses {} bytes of shared memory a worker, and '{}' has {}", bytes,
                               machine.name, machine.shared_bytes));
    }
    // Threads share cores, so a cpu plan may have any number of workers; resident CTAs do not share an SM.
    const auto workers = static_cast<std::int64_t>(plan.workers.size());
    if (machine.arch != "cpu" && workers > machine.workers) {
        faults.add(Kind::Capacity, fmt::format("the plan has {} workers, and '{}' keeps {} resident", workers,
                                               machine.name, machine.workers));
    }
}

}  // namespace

bool check_structure(const Plan& plan, FaultList& faults) {
    if (!TableCheck(plan, faults).run()) return false;
    const bool queues = QueueCheck(plan, faults).run();
    const bool inside = check_offsets(plan, faults);
    check_shared(plan, faults);
    check_machine(plan, faults);
    return queues && inside;
}

}  // namespace stretto::verifying
