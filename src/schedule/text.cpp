#include "schedule/text.h"

#include <limits>

#include "base/error.h"

namespace stretto {
namespace {

constexpr Names<HandOff, 4> kHandOffNames{"a hand-off", {"same_worker", "counter", "barrier", "words"}};

/// Bounds what one line of a foreign text can make the parser allocate.
constexpr std::int64_t kLongestRun = 256;

std::uint32_t read_u32(Reader& in) {
    return static_cast<std::uint32_t>(in.integer(0, std::numeric_limits<std::uint32_t>::max()));
}

void write(Writer& out, const Step& step) {
    out.put("step ", label(step.task));
    if (!step.waits.empty()) out.put(" waits");
    for (const Wait& wait : step.waits) out.put(' ', label(wait.event), ">=", wait.target);
    if (!step.signals.empty()) out.put(" signals");
    for (const EventId event : step.signals) out.put(' ', label(event));
}

Step read_step(Reader& in) {
    Step step;
    step.task = in.id<TaskId>();
    if (in.accept("waits")) {
        do {
            Wait& wait = step.waits.emplace_back();
            wait.event = in.id<EventId>();
            in.expect(">=");
            wait.target = read_u32(in);
        } while (in.next_is<EventId>());
    }
    if (in.accept("signals")) {
        do step.signals.push_back(in.id<EventId>());
        while (in.next_is<EventId>());
    }
    return step;
}

/// Distance in bytes from one load to the next, wrapping as unsigned numbers do so that any plan can be written.
std::int64_t distance(const Load& from, const Load& to) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(to.offset) -
                                     static_cast<std::uint64_t>(from.offset));
}

Load moved(Load load, std::int64_t bytes) {
    load.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(load.offset) +
                                            static_cast<std::uint64_t>(bytes));
    return load;
}

/// How many loads from `first` on form a run: all but the offset equal, offsets equally far apart.
std::size_t run_length(const std::vector<Load>& stream, std::size_t first) {
    std::size_t length = 1;
    while (first + length < stream.size() && length < kLongestRun) {
        const Load& last = stream[first + length - 1];
        const std::int64_t step = distance(stream[first], stream[first + 1]);
        if (moved(last, step) != stream[first + length]) break;
        ++length;
    }
    return length;
}

void write_stream(Writer& out, const std::vector<Load>& stream) {
    for (std::size_t i = 0; i < stream.size();) {
        const Load& load = stream[i];
        const Load end = moved(load, load.row_bytes);
        out.line("load ", label(load.task), ' ', label(load.buffer), ' ', Range{load.offset, end.offset});
        if (load.rows != 1 || load.row_stride != 0) out.put(" rows ", load.rows, " apart ", load.row_stride);
        const std::size_t length = run_length(stream, i);
        if (length > 1) out.put(" x", length, " every ", distance(load, stream[i + 1]));
        i += length;
    }
}

void read_loads(Reader& in, std::vector<Load>& stream) {
    Load load;
    load.task = in.id<TaskId>();
    load.buffer = in.id<BufferId>();
    const Range range = in.range();
    load.offset = range.begin;
    load.row_bytes = distance(load, {load.task, load.buffer, range.end, 0});
    if (in.accept("rows")) {
        load.rows = in.integer();
        in.expect("apart");
        load.row_stride = in.integer();
    }
    stream.push_back(load);
    if (!in.next_is_label('x')) return;
    const std::int64_t length = in.number_of_label('x', 2, kLongestRun);
    in.expect("every");
    const std::int64_t step = in.integer();
    for (std::int64_t i = 1; i < length; ++i) stream.push_back(moved(stream.back(), step));
}

void write(Writer& out, const Worker& worker) {
    out.open();
    for (const Step& step : worker.queue) {
        out.line();
        write(out, step);
    }
    write_stream(out, worker.stream);
    out.close();
}

Worker read_worker(Reader& in) {
    Worker worker;
    in.expect("{");
    while (in.accept("step")) worker.queue.push_back(read_step(in));
    while (in.accept("load")) read_loads(in, worker.stream);
    in.expect("}");
    return worker;
}

Event read_event(Reader& in) {
    Event event;
    event.kind = kHandOffNames.read(in);
    event.signals = read_u32(in);
    event.name = in.quoted();
    return event;
}

Edge read_edge(Reader& in) {
    Edge edge;
    edge.from = in.id<RegionId>();
    edge.to = in.id<RegionId>();
    edge.kind = kHandOffNames.read(in);
    return edge;
}

void write_arena(Writer& out, const Plan& plan) {
    if (plan.offsets.empty() && plan.arena_bytes == 0) return;
    ensure(plan.offsets.size() == plan.graph.regions.buffers.size(), "a plan's offsets are one per buffer");
    out.line("arena ", plan.arena_bytes);
    out.open();
    for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
        if (plan.offsets[i] == -1) continue;
        out.line(label(BufferId(static_cast<std::int64_t>(i))), " at ", plan.offsets[i]);
    }
    out.close();
}

void read_arena(Reader& in, Plan& plan) {
    plan.arena_bytes = in.integer();
    plan.offsets.assign(plan.graph.regions.buffers.size(), -1);
    in.expect("{");
    while (!in.accept("}")) {
        Reader before = in;
        const BufferId buffer = in.id<BufferId>();
        if (!buffer.valid() || buffer.index() >= plan.offsets.size()) before.fail("the label of a buffer");
        in.expect("at");
        plan.offsets[buffer.index()] = in.integer();
    }
}

SharedLayout read_shared(Reader& in) {
    SharedLayout shared;
    in.expect("shared");
    shared.slots = in.integer();
    in.expect("slots");
    in.expect("of");
    shared.slot_bytes = in.integer();
    in.expect("scratch");
    shared.scratch_bytes = in.integer();
    in.expect("warps");
    shared.warps = static_cast<std::int32_t>(in.integer(0, std::numeric_limits<std::int32_t>::max()));
    return shared;
}

}  // namespace

std::string to_text(const Plan& plan) {
    Writer out;
    out.line("plan ", Quoted{plan.machine});
    out.line("shared ", plan.shared.slots, " slots of ", plan.shared.slot_bytes, " scratch ",
             plan.shared.scratch_bytes, " warps ", plan.shared.warps);
    write(out, plan.graph);
    for (std::size_t i = 0; i < plan.events.size(); ++i) {
        const Event& event = plan.events[i];
        out.line("event ", label(EventId(static_cast<std::int64_t>(i))), " = ", kHandOffNames[event.kind],
                 ' ', event.signals, ' ', Quoted{event.name});
    }
    for (const Edge& edge : plan.edges) {
        out.line("edge ", label(edge.from), ' ', label(edge.to), ' ', kHandOffNames[edge.kind]);
    }
    for (std::size_t i = 0; i < plan.workers.size(); ++i) {
        out.line("worker w", i);
        write(out, plan.workers[i]);
    }
    write_arena(out, plan);
    return out.take_document();
}

Plan parse_plan(std::string_view text) {
    Reader in(text, "plan text");
    Plan plan;
    in.expect("plan");
    plan.machine = in.quoted();
    plan.shared = read_shared(in);
    plan.graph = read_task_graph(in);
    while (in.accept("event")) {
        in.expect_label('e', plan.events.size());
        in.expect("=");
        plan.events.push_back(read_event(in));
    }
    while (in.accept("edge")) plan.edges.push_back(read_edge(in));
    while (in.accept("worker")) {
        in.expect_label('w', plan.workers.size());
        plan.workers.push_back(read_worker(in));
    }
    if (in.accept("arena")) read_arena(in, plan);
    if (!in.at_end()) {
        in.fail("the next part of a plan: buffer, region, tasks, task, event, edge, worker, arena");
    }
    return plan;
}

}  // namespace stretto
