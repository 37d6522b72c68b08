#include "tile/dependencies.h"

#include <algorithm>
#include <map>

namespace stretto {
namespace {

/// How the tasks of one region touch one buffer. `axis` is the dimension along which their boxes differ most, and
/// the boxes' ends along it are kept in task order for searching.
struct Touch {
    std::int32_t region = 0;
    bool write = false;
    Box hull;              ///< of all boxes
    bool uniform = false;  ///< every task touches the same box
    std::size_t axis = 0;
    bool sorted = false;  ///< begins and ends along axis do not decrease with the task number
    std::vector<std::int64_t> tasks;
    std::vector<const Box*> boxes;
};

void finish(Touch& touch) {
    touch.hull = *touch.boxes.front();
    touch.uniform = true;
    for (const Box* box : touch.boxes) {
        if (*box != touch.hull) touch.uniform = false;
    }
    std::vector<int> changes(touch.hull.size(), 0);
    for (std::size_t i = 1; i < touch.boxes.size(); ++i) {
        for (std::size_t d = 0; d < changes.size(); ++d) {
            if ((*touch.boxes[i])[d] != (*touch.boxes[i - 1])[d]) ++changes[d];
        }
    }
    for (const Box* box : touch.boxes) {
        for (std::size_t d = 0; d < touch.hull.size(); ++d) {
            touch.hull[d].begin = std::min(touch.hull[d].begin, (*box)[d].begin);
            touch.hull[d].end = std::max(touch.hull[d].end, (*box)[d].end);
        }
    }
    if (changes.empty()) return;
    touch.axis = static_cast<std::size_t>(std::max_element(changes.begin(), changes.end()) - changes.begin());
    touch.sorted = std::is_sorted(touch.boxes.begin(), touch.boxes.end(), [&](const Box* a, const Box* b) {
        const Range x = (*a)[touch.axis];
        const Range y = (*b)[touch.axis];
        return x.begin < y.begin || x.end < y.end;
    });
}

/// The tasks of `touch` whose boxes meet `box`, as one range of task numbers; empty if none.
Range tasks_meeting(const Touch& touch, const Box& box) {
    if (!intersects(touch.hull, box)) return {};
    if (touch.uniform || box.empty()) return {touch.tasks.front(), touch.tasks.back() + 1};
    auto first = touch.boxes.begin();
    auto last = touch.boxes.end();
    if (touch.sorted) {
        const Range wanted = box[touch.axis];
        first = std::partition_point(first, last,
                                     [&](const Box* b) { return (*b)[touch.axis].end <= wanted.begin; });
        last = std::partition_point(first, last,
                                    [&](const Box* b) { return (*b)[touch.axis].begin < wanted.end; });
    }
    const auto meets = [&](const Box* b) { return intersects(*b, box); };
    first = std::find_if(first, last, meets);
    while (last != first && !meets(*(last - 1))) --last;
    if (first == last) return {};
    const auto number = [&](auto it) {
        return touch.tasks[static_cast<std::size_t>(it - touch.boxes.begin())];
    };
    return {number(first), number(last - 1) + 1};
}

/// The accesses of all regions so far to one buffer.
using History = std::vector<Touch>;

void collect(const TaskGraph& graph, std::size_t region, bool write, std::map<BufferId, Touch>& out) {
    for (std::int64_t t = graph.tasks_of[region].begin; t < graph.tasks_of[region].end; ++t) {
        const Task& task = graph.tasks[static_cast<std::size_t>(t)];
        for (const Footprint& footprint : write ? task.writes : task.reads) {
            Touch& touch = out[footprint.buffer];
            touch.region = static_cast<std::int32_t>(region);
            touch.write = write;
            touch.tasks.push_back(t);
            touch.boxes.push_back(&footprint.box);
        }
    }
    for (auto& [buffer, touch] : out) finish(touch);
}

/// Sorts ranges and joins those that overlap or touch within one region.
void merge(std::vector<Range>& ranges, const TaskGraph& graph) {
    std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.begin < b.begin; });
    std::vector<Range> merged;
    for (Range r : ranges) {
        const bool joins = !merged.empty() && r.begin <= merged.back().end &&
                           graph.tasks[static_cast<std::size_t>(r.begin)].region ==
                               graph.tasks[static_cast<std::size_t>(merged.back().begin)].region;
        if (joins) {
            merged.back().end = std::max(merged.back().end, r.end);
        } else {
            merged.push_back(r);
        }
    }
    ranges = std::move(merged);
}

}  // namespace

void find_dependencies(TaskGraph& graph) {
    std::map<BufferId, History> writes;
    std::map<BufferId, History> reads;
    for (std::size_t region = 0; region < graph.regions.regions.size(); ++region) {
        const Range own = graph.tasks_of[region];
        for (std::int64_t t = own.begin; t < own.end; ++t) {
            Task& task = graph.tasks[static_cast<std::size_t>(t)];
            const auto follow = [&](const History& history, const Box& box) {
                for (const Touch& touch : history) {
                    const Range found = tasks_meeting(touch, box);
                    if (!found.empty()) task.after.push_back(found);
                }
            };
            for (const Footprint& read : task.reads) follow(writes[read.buffer], read.box);
            for (const Footprint& write : task.writes) {
                follow(writes[write.buffer], write.box);
                follow(reads[write.buffer], write.box);
            }
            merge(task.after, graph);
        }
        std::map<BufferId, Touch> touched;
        collect(graph, region, true, touched);
        for (auto& [buffer, touch] : touched) writes[buffer].push_back(std::move(touch));
        touched.clear();
        collect(graph, region, false, touched);
        for (auto& [buffer, touch] : touched) {
            const BufferRole role = graph.regions[buffer].role;
            const bool written_later =
                role == BufferRole::State || role == BufferRole::Output || role == BufferRole::Arena;
            if (written_later) reads[buffer].push_back(std::move(touch));
        }
    }
}

}  // namespace stretto
