#include "tile/text.h"

namespace stretto {
namespace {

template <class Ranges>
void write_ranges(Writer& out, const Ranges& ranges) {
    out.put('[');
    const char* separator = "";
    for (const Range range : ranges) {
        out.put(separator, range);
        separator = ", ";
    }
    out.put(']');
}

void write_footprints(Writer& out, std::string_view part, const std::vector<Footprint>& footprints) {
    if (!footprints.empty()) out.put(' ', part);
    for (const Footprint& footprint : footprints) {
        out.put(footprint.may ? " may " : " ", label(footprint.buffer));
        write_ranges(out, footprint.box);
    }
}

void write(Writer& out, const Task& task) {
    out.put(label(task.region), ' ');
    write_ranges(out, task.tile);
    write_footprints(out, "reads", task.reads);
    write_footprints(out, "writes", task.writes);
    if (!task.after.empty()) out.put(" after");
    for (const Range range : task.after) out.put(' ', range);
}

Box read_box(Reader& in) {
    Box box;
    in.expect("[");
    if (in.accept("]")) return box;
    do box.push_back(in.range());
    while (in.accept(","));
    in.expect("]");
    return box;
}

std::vector<Footprint> read_footprints(Reader& in, std::string_view part) {
    std::vector<Footprint> footprints;
    if (!in.accept(part)) return footprints;
    do {
        Footprint& footprint = footprints.emplace_back();
        footprint.may = in.accept("may");
        footprint.buffer = in.id<BufferId>();
        footprint.box = read_box(in);
    } while (in.next_is<BufferId>() || in.next_is_token("may"));
    return footprints;
}

Task read_task(Reader& in) {
    Task task;
    task.region = in.id<RegionId>();
    in.expect("[");
    for (std::size_t i = 0; i < task.tile.size(); ++i) {
        if (i > 0) in.expect(",");
        task.tile[i] = in.range();
    }
    in.expect("]");
    task.reads = read_footprints(in, "reads");
    task.writes = read_footprints(in, "writes");
    if (!in.accept("after")) return task;
    do task.after.push_back(in.range());
    while (in.next_is_integer());
    return task;
}

}  // namespace

void write(Writer& out, const TaskGraph& graph) {
    write(out, graph.regions);
    for (std::size_t i = 0; i < graph.tasks_of.size(); ++i) {
        out.line("tasks ", label(RegionId(static_cast<std::int64_t>(i))), ' ', graph.tasks_of[i]);
    }
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
        out.line("task ", label(TaskId(static_cast<std::int64_t>(i))), " = ");
        write(out, graph.tasks[i]);
    }
}

TaskGraph read_task_graph(Reader& in) {
    TaskGraph graph;
    graph.regions = read_region_graph(in);
    while (in.accept("tasks")) {
        in.expect_label('r', graph.tasks_of.size());
        graph.tasks_of.push_back(in.range());
    }
    while (in.accept("task")) {
        in.expect_label('t', graph.tasks.size());
        in.expect("=");
        graph.tasks.push_back(read_task(in));
    }
    return graph;
}

std::string to_text(const TaskGraph& graph) {
    Writer out;
    write(out, graph);
    return out.take_document();
}

TaskGraph parse_task_graph(std::string_view text) {
    Reader in(text, "task text");
    TaskGraph graph = read_task_graph(in);
    if (!in.at_end()) in.fail("'buffer', 'region', 'tasks' or 'task'");
    return graph;
}

}  // namespace stretto
