#include "verify/mutants.h"

#include <algorithm>
#include <map>

namespace stretto {
namespace {

using Mutant = std::optional<Plan>;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

template <class T>
T& any_of(Random& random, std::vector<T>& items) {
    return items[below(random, items.size())];
}

/// Every step for which `wanted` holds.
template <class Wanted>
std::vector<Step*> steps(Plan& plan, Wanted wanted) {
    std::vector<Step*> found;
    for (Worker& worker : plan.workers) {
        for (Step& step : worker.queue) {
            if (wanted(step)) found.push_back(&step);
        }
    }
    return found;
}

bool waits(const Step& step) { return !step.waits.empty(); }
bool signals(const Step& step) { return !step.signals.empty(); }

/// Puts every worker's loads into the order of its queue, so that only the order of tasks is wrong.
void restream(Plan& plan) {
    std::map<TaskId, std::vector<Load>> loads;
    for (Worker& worker : plan.workers) {
        for (const Load& load : worker.stream) loads[load.task].push_back(load);
        worker.stream.clear();
    }
    for (Worker& worker : plan.workers) {
        for (const Step& step : worker.queue) {
            const auto& own = loads[step.task];
            worker.stream.insert(worker.stream.end(), own.begin(), own.end());
        }
    }
}

Mutant delete_wait(Plan plan, Random& random) {
    auto found = steps(plan, waits);
    if (found.empty()) return std::nullopt;
    auto& list = any_of(random, found)->waits;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(below(random, list.size())));
    return plan;
}

Mutant lower_target(Plan plan, Random& random) {
    auto found = steps(plan, waits);
    if (found.empty()) return std::nullopt;
    Wait& wait = any_of(random, any_of(random, found)->waits);
    if (wait.target == 0) return std::nullopt;
    wait.target -= 1 + static_cast<std::uint32_t>(below(random, wait.target));
    return plan;
}

Mutant raise_target(Plan plan, Random& random) {
    auto found = steps(plan, waits);
    if (found.empty()) return std::nullopt;
    ++any_of(random, any_of(random, found)->waits).target;
    return plan;
}

EventId remove_signal(Plan& plan, Random& random) {
    auto found = steps(plan, signals);
    if (found.empty()) return {};
    auto& list = any_of(random, found)->signals;
    const auto at = list.begin() + static_cast<std::ptrdiff_t>(below(random, list.size()));
    const EventId event = *at;
    list.erase(at);
    return event;
}

Mutant drop_signal(Plan plan, Random& random) {
    if (!remove_signal(plan, random).valid()) return std::nullopt;
    return plan;
}

/// Drops a signal and makes every number agree, so that only the order is missing.
Mutant forget_signaller(Plan plan, Random& random) {
    const EventId event = remove_signal(plan, random);
    if (!event.valid()) return std::nullopt;
    const std::uint32_t left = --plan.events[event.index()].signals;
    for (Step* step : steps(plan, waits)) {
        for (Wait& wait : step->waits) {
            if (wait.event == event) wait.target = std::min(wait.target, left);
        }
    }
    return plan;
}

Mutant wait_for_another_event(Plan plan, Random& random) {
    auto found = steps(plan, waits);
    if (found.empty()) return std::nullopt;
    Wait& wait = any_of(random, any_of(random, found)->waits);
    wait.event = EventId(static_cast<std::int64_t>(below(random, plan.events.size())));
    wait.target = plan.events[wait.event.index()].signals;
    return plan;
}

Mutant swap_steps(Plan plan, Random& random, bool neighbours) {
    auto& queue = any_of(random, plan.workers).queue;
    if (queue.size() < 2) return std::nullopt;
    const std::size_t a = below(random, queue.size() - 1);
    const std::size_t b = neighbours ? a + 1 : a + 1 + below(random, queue.size() - a - 1);
    std::swap(queue[a], queue[b]);
    restream(plan);
    return plan;
}

Mutant swap_neighbours(Plan plan, Random& random) { return swap_steps(std::move(plan), random, true); }
Mutant swap_distant(Plan plan, Random& random) { return swap_steps(std::move(plan), random, false); }

Mutant reorder_without_loads(Plan plan, Random& random) {
    auto& queue = any_of(random, plan.workers).queue;
    if (queue.size() < 2) return std::nullopt;
    std::shuffle(queue.begin(), queue.end(), random);
    return plan;
}

Mutant move_task(Plan plan, Random& random) {
    auto& from = any_of(random, plan.workers).queue;
    auto& to = any_of(random, plan.workers).queue;
    if (from.empty() || &from == &to) return std::nullopt;
    const std::size_t at = below(random, from.size());
    Step step = from[at];
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
    to.insert(to.begin() + static_cast<std::ptrdiff_t>(std::min(at, to.size())), std::move(step));
    restream(plan);
    return plan;
}

Mutant duplicate_task(Plan plan, Random& random) {
    auto found = steps(plan, [](const Step&) { return true; });
    const TaskId task = any_of(random, found)->task;
    any_of(random, plan.workers).queue.push_back({task, {}, {}});
    return plan;
}

Mutant cycle_two_queues(Plan plan, Random& random) {
    auto& first = any_of(random, plan.workers).queue;
    auto& second = any_of(random, plan.workers).queue;
    if (&first == &second || first.empty() || second.empty()) return std::nullopt;
    const auto hand_back = [&](std::vector<Step>& from, std::vector<Step>& to) {
        const EventId event(static_cast<std::int64_t>(plan.events.size()));
        plan.events.push_back({HandOff::Counter, 1, "mutant"});
        from.back().signals.push_back(event);
        to.front().waits.push_back({event, 1});
    };
    hand_back(first, second);
    hand_back(second, first);
    return plan;
}

std::vector<std::size_t> arena_buffers(const Plan& plan) {
    std::vector<std::size_t> found;
    for (std::size_t b = 0; b < plan.offsets.size(); ++b) {
        if (plan.graph.regions.buffers[b].role == BufferRole::Arena) found.push_back(b);
    }
    return found;
}

/// The arena grows where the moved buffer needs it, so that sharing is the only fault.
Mutant overlap_buffers(Plan plan, Random& random) {
    auto buffers = arena_buffers(plan);
    if (buffers.size() < 2) return std::nullopt;
    const std::size_t a = any_of(random, buffers);
    const std::size_t b = any_of(random, buffers);
    if (plan.offsets[a] == plan.offsets[b]) return std::nullopt;
    plan.offsets[b] = plan.offsets[a];
    plan.arena_bytes =
        std::max(plan.arena_bytes, plan.offsets[b] + plan.graph.regions.buffers[b].size_bytes());
    return plan;
}

Mutant shift_outside(Plan plan, Random& random) {
    auto buffers = arena_buffers(plan);
    if (buffers.empty()) return std::nullopt;
    const std::size_t b = any_of(random, buffers);
    plan.offsets[b] = below(random, 2) == 0 ? plan.arena_bytes : -256;
    return plan;
}

std::vector<std::size_t> tagged_buffers(const Plan& plan) {
    auto found = arena_buffers(plan);
    std::erase_if(found, [&](std::size_t b) { return !plan.graph.regions.buffers[b].tagged; });
    return found;
}

/// The readers then lean on words that are not there.
Mutant drop_a_tag(Plan plan, Random& random) {
    auto buffers = tagged_buffers(plan);
    if (buffers.empty()) return std::nullopt;
    plan.graph.regions.buffers[any_of(random, buffers)].tagged = false;
    return plan;
}

/// A second task writes what a first one writes: to the same words, where the buffer is tagged.
Mutant write_words_twice(Plan plan, Random& random) {
    auto buffers = tagged_buffers(plan);
    if (buffers.empty()) return std::nullopt;
    const BufferId buffer(static_cast<std::int64_t>(any_of(random, buffers)));
    std::vector<Footprint> writes;
    for (const Task& task : plan.graph.tasks) {
        for (const Footprint& write : task.writes) {
            if (write.buffer == buffer) writes.push_back(write);
        }
    }
    if (writes.empty()) return std::nullopt;
    any_of(random, plan.graph.tasks).writes.push_back(any_of(random, writes));
    return plan;
}

/// A task reads words that its region, or a later one, writes.
Mutant read_words_too_early(Plan plan, Random& random) {
    auto buffers = tagged_buffers(plan);
    if (buffers.empty()) return std::nullopt;
    const std::size_t b = any_of(random, buffers);
    any_of(random, plan.graph.tasks)
        .reads.push_back(
            {BufferId(static_cast<std::int64_t>(b)), whole(plan.graph.regions.buffers[b].shape), false});
    return plan;
}

Mutant leave_words_unwritten(Plan plan, Random& random) {
    auto buffers = tagged_buffers(plan);
    if (buffers.empty()) return std::nullopt;
    const BufferId buffer(static_cast<std::int64_t>(any_of(random, buffers)));
    for (Task& task : plan.graph.tasks) {
        for (Footprint& write : task.writes) {
            if (write.buffer == buffer) write.may = true;
        }
    }
    return plan;
}

/// Moves a plain buffer onto the tail of words.
Mutant overlap_words(Plan plan, Random& random) {
    auto words = tagged_buffers(plan);
    auto buffers = arena_buffers(plan);
    if (words.empty()) return std::nullopt;
    const std::size_t w = any_of(random, words);
    const std::size_t b = any_of(random, buffers);
    const std::int64_t tail = plan.graph.regions.buffers[w].size_bytes() - 1;
    if (w == b || tail < 0) return std::nullopt;
    plan.offsets[b] = plan.offsets[w] + tail / 256 * 256;
    plan.arena_bytes =
        std::max(plan.arena_bytes, plan.offsets[b] + plan.graph.regions.buffers[b].size_bytes());
    return plan;
}

Mutant grow_box(Plan plan, Random& random) {
    Task& task = any_of(random, plan.graph.tasks);
    auto& prints = below(random, 2) == 0 || task.reads.empty() ? task.writes : task.reads;
    if (prints.empty()) return std::nullopt;
    Box& box = any_of(random, prints).box;
    if (box.empty()) return std::nullopt;
    ++any_of(random, box).end;
    return plan;
}

Mutant shrink_write(Plan plan, Random& random) {
    auto& writes = any_of(random, plan.graph.tasks).writes;
    if (writes.empty()) return std::nullopt;
    Box& box = any_of(random, writes).box;
    if (box.empty()) return std::nullopt;
    Range& range = any_of(random, box);
    if (range.size() < 2) return std::nullopt;
    --range.end;
    return plan;
}

Mutant swap_loads(Plan plan, Random& random) {
    auto& stream = any_of(random, plan.workers).stream;
    if (stream.size() < 2) return std::nullopt;
    const std::size_t at = below(random, stream.size() - 1);
    if (stream[at] == stream[at + 1]) return std::nullopt;
    std::swap(stream[at], stream[at + 1]);
    return plan;
}

Mutant shrink_load(Plan plan, Random& random) {
    auto& stream = any_of(random, plan.workers).stream;
    if (stream.empty()) return std::nullopt;
    any_of(random, stream).row_bytes -= 2;
    return plan;
}

/// Some load of several rows.
Load* panel(Plan& plan, Random& random) {
    std::vector<Load*> found;
    for (Worker& worker : plan.workers) {
        for (Load& load : worker.stream) {
            if (load.rows > 1) found.push_back(&load);
        }
    }
    return found.empty() ? nullptr : any_of(random, found);
}

Mutant drop_row(Plan plan, Random& random) {
    Load* load = panel(plan, random);
    if (load == nullptr) return std::nullopt;
    --load->rows;
    return plan;
}

Mutant spread_rows(Plan plan, Random& random) {
    Load* load = panel(plan, random);
    if (load == nullptr) return std::nullopt;
    load->row_stride += 16;
    return plan;
}

Mutant shrink_slots(Plan plan, Random& random) {
    const Load* load = panel(plan, random);
    if (load == nullptr) return std::nullopt;
    plan.shared.slot_bytes = load->bytes() - 1;
    return plan;
}

Mutant drop_load(Plan plan, Random& random) {
    auto& stream = any_of(random, plan.workers).stream;
    if (stream.empty()) return std::nullopt;
    stream.erase(stream.begin() + static_cast<std::ptrdiff_t>(below(random, stream.size())));
    return plan;
}

}  // namespace

const std::vector<Mutation>& mutations() {
    static const std::vector<Mutation> kAll{
        {"delete a wait", false, delete_wait},
        {"lower a target", false, lower_target},
        {"raise a target", false, raise_target},
        {"drop a signal", false, drop_signal},
        {"forget a signaller", false, forget_signaller},
        {"wait for another event", false, wait_for_another_event},
        {"swap neighbours in a queue", false, swap_neighbours},
        {"swap distant steps of a queue", false, swap_distant},
        {"shuffle a queue without its loads", false, reorder_without_loads},
        {"move a task to another worker", false, move_task},
        {"schedule a task twice", false, duplicate_task},
        {"make a cycle of two queues", false, cycle_two_queues},
        {"overlap two buffers", false, overlap_buffers},
        {"shift a buffer outside", false, shift_outside},
        {"drop a tag", false, drop_a_tag},
        {"write words twice", false, write_words_twice},
        {"read words too early", false, read_words_too_early},
        {"leave words unwritten", false, leave_words_unwritten},
        {"overlap words", false, overlap_words},
        {"grow a box", false, grow_box},
        {"shrink a write", false, shrink_write},
        {"swap two loads", true, swap_loads},
        {"shrink a load", true, shrink_load},
        {"drop a row of a load", true, drop_row},
        {"spread the rows of a load", true, spread_rows},
        {"shrink the slots below a load", true, shrink_slots},
        {"drop a load", true, drop_load},
    };
    return kAll;
}

}  // namespace stretto
