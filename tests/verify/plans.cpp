#include "verify/plans.h"

#include <algorithm>
#include <stdexcept>

namespace stretto {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

PlanBuilder::PlanBuilder(int workers) {
    plan_.machine = "tiny";
    plan_.workers.resize(static_cast<std::size_t>(workers));
    plan_.shared.slots = 2;
    plan_.shared.slot_bytes = 1088;
    plan_.shared.scratch_bytes = 4096;
}

void PlanBuilder::buffer(const std::string& name, std::int64_t elements, BufferRole role) {
    plan_.graph.regions.buffers.push_back({name, DType::F32, {elements}, role, nullptr});
}

void PlanBuilder::tag(const std::string& name) {
    plan_.graph.regions.buffers[find(name).index()].tagged = true;
}

BufferId PlanBuilder::find(const std::string& name) const {
    const auto& buffers = plan_.graph.regions.buffers;
    for (std::size_t b = 0; b < buffers.size(); ++b) {
        if (buffers[b].name == name) return BufferId(static_cast<std::int64_t>(b));
    }
    throw std::logic_error("no buffer " + name);
}

std::vector<Footprint> PlanBuilder::footprints(const std::vector<Part>& parts) const {
    std::vector<Footprint> out;
    for (const Part& part : parts) out.push_back({find(part.buffer), {{part.begin, part.end}}, part.may});
    return out;
}

TaskId PlanBuilder::add(const std::string& name, RegionBody body, int worker, Task task) {
    TaskGraph& graph = plan_.graph;
    const TaskId id(static_cast<std::int64_t>(graph.tasks.size()));
    if (graph.regions.regions.empty() || graph.regions.regions.back().name != name) {
        graph.regions.regions.push_back({name, std::move(body)});
        graph.tasks_of.push_back({id.value, id.value});
    }
    ++graph.tasks_of.back().end;
    task.region = RegionId(static_cast<std::int64_t>(graph.regions.regions.size()) - 1);
    graph.tasks.push_back(std::move(task));
    auto& queue = plan_.workers.at(static_cast<std::size_t>(worker)).queue;
    places_.emplace_back(worker, static_cast<int>(queue.size()));
    queue.push_back({id, {}, {}});
    return id;
}

TaskId PlanBuilder::task(const std::string& region, int worker, const std::vector<Part>& reads,
                         const std::vector<Part>& writes) {
    Task task;
    task.reads = footprints(reads);
    task.writes = footprints(writes);
    return add(region, MapRegion{}, worker, std::move(task));
}

TaskId PlanBuilder::product(const std::string& region, int worker, const std::string& weight, std::int64_t k,
                            Range rows) {
    const BufferId id = find(weight);
    auto& buffer = plan_.graph.regions.buffers[id.index()];
    buffer.dtype = DType::BF16;
    const std::int64_t n = volume(buffer.shape) / k;
    MatMulRegion matmul;
    matmul.space = {1, 1, n, k};
    matmul.streamed = true;
    IndexMap map;
    map.dims = {{atom(1, 0)}, {atom(1, 0)}, {atom(n, k)}, {atom(k, 1)}};
    matmul.weights.push_back({id.value, DType::BF16, map, {}});
    Task task;
    task.tile = {Range{0, 1}, Range{0, 1}, rows, Range{0, 0}};
    task.reads.push_back({id, {{rows.begin * k, rows.end * k}}, false});
    const TaskId added = add(region, matmul, worker, std::move(task));
    auto& stream = plan_.workers.at(static_cast<std::size_t>(worker)).stream;
    const std::int64_t row_bytes = k * 2;
    for (std::int64_t row = rows.begin; row < rows.end; row += 8) {
        const std::int64_t count = std::min<std::int64_t>(8, rows.end - row);
        stream.push_back({added, id, row * row_bytes, row_bytes, count, count > 1 ? row_bytes : 0});
    }
    return added;
}

EventId PlanBuilder::event(const std::string& name) {
    plan_.events.push_back({HandOff::Counter, 0, name});
    return EventId(static_cast<std::int64_t>(plan_.events.size()) - 1);
}

void PlanBuilder::signal(TaskId task, EventId event) {
    const auto [worker, position] = places_[task.index()];
    plan_.workers[static_cast<std::size_t>(worker)]
        .queue[static_cast<std::size_t>(position)]
        .signals.push_back(event);
    ++plan_.events[event.index()].signals;
}

void PlanBuilder::wait(TaskId task, EventId event, std::uint32_t target) {
    const auto [worker, position] = places_[task.index()];
    plan_.workers[static_cast<std::size_t>(worker)].queue[static_cast<std::size_t>(position)].waits.push_back(
        {event, target});
}

void PlanBuilder::hand_off(TaskId from, TaskId to) {
    const std::string name = plan_.graph.regions[plan_.graph[from].region].name;
    const EventId id = event(name);
    signal(from, id);
    wait(to, id, 1);
}

Plan PlanBuilder::finish() const {
    Plan plan = plan_;
    for (const Buffer& buffer : plan.graph.regions.buffers) {
        const bool placed = buffer.role == BufferRole::Arena;
        plan.offsets.push_back(placed ? plan.arena_bytes : -1);
        if (placed) plan.arena_bytes += aligned(buffer.size_bytes());
    }
    return plan;
}

std::string faults_of(const Plan& plan) {
    std::string text;
    for (const Fault& fault : verify(plan)) {
        text += (text.empty() ? "" : "\n") + std::string(name(fault.kind)) + ": " + fault.message;
    }
    return text;
}

bool has_fault(const Plan& plan, Fault::Kind kind) {
    const std::vector<Fault> faults = verify(plan);
    return std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) { return fault.kind == kind; });
}

}  // namespace stretto
