#include "backends/reference/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/reference/play.h"
#include "backends/reference/word_writers.h"

namespace stretto {
namespace {

using Faults = std::vector<std::string>;

bool inside(std::int32_t id, std::size_t table) { return id >= 0 && static_cast<std::size_t>(id) < table; }

void check_footprints(const Plan& plan, std::size_t task, const std::vector<Footprint>& footprints,
                      Faults& faults) {
    for (const Footprint& footprint : footprints) {
        if (!inside(footprint.buffer.value, plan.graph.regions.buffers.size())) {
            faults.push_back(
                fmt::format("task #{} names buffer {}, which does not exist", task, footprint.buffer.value));
            continue;
        }
        const Buffer& buffer = plan.graph.regions[footprint.buffer];
        bool fits = footprint.box.size() == buffer.shape.size();
        for (std::size_t d = 0; fits && d < buffer.shape.size(); ++d) {
            fits = footprint.box[d].begin >= 0 && footprint.box[d].end <= buffer.shape[d];
        }
        if (!fits) faults.push_back(fmt::format("task #{} has a box outside buffer '{}'", task, buffer.name));
    }
}

/// Main loops that read a buffer as it lies do not look at tags.
bool polls(const RegionGraph& graph, const Region& region) {
    const auto tagged = [&](const Access& access) { return graph[BufferId(access.source)].tagged; };
    if (const auto* matmul = std::get_if<MatMulRegion>(&region.body)) {
        return std::none_of(matmul->weights.begin(), matmul->weights.end(), tagged);
    }
    if (const auto* scored = std::get_if<ScoredRegion>(&region.body)) {
        const auto reads_tagged = [&](const ScoredSum& sum) {
            const auto& weight = sum.weight.accesses;
            return (sum.factor && tagged(*sum.factor)) || std::any_of(weight.begin(), weight.end(), tagged);
        };
        return std::none_of(scored->sums.begin(), scored->sums.end(), reads_tagged) &&
               std::none_of(scored->scores.begin(), scored->scores.end(),
                            [&](const Score& score) { return tagged(score.left) || tagged(score.right); });
    }
    const auto* attention = std::get_if<AttentionRegion>(&region.body);
    return attention == nullptr || (!tagged(attention->key) && !tagged(attention->value));
}

void check_words(const RegionGraph& graph, Faults& faults) {
    for (const Buffer& buffer : graph.buffers) {
        const std::size_t size = size_of(buffer.dtype);
        if (buffer.tagged && (buffer.role != BufferRole::Arena || (size != 2 && size != 4)))
            faults.push_back(fmt::format("buffer '{}' cannot be tagged", buffer.name));
        if (buffer.packed && (!buffer.tagged || !is_float(buffer.dtype)))
            faults.push_back(fmt::format("buffer '{}' cannot be packed", buffer.name));
    }
    for (const Region& region : graph.regions) {
        if (!polls(graph, region))
            faults.push_back(fmt::format("region '{}' cannot wait for the words that it reads", region.name));
    }
}

/// Everything that the rest of the judge takes for granted.
Faults malformed(const Plan& plan) {
    Faults faults;
    const std::size_t tasks = plan.graph.tasks.size();
    const std::vector<Buffer>& buffers = plan.graph.regions.buffers;
    for (std::size_t t = 0; t < tasks; ++t) {
        const Task& task = plan.graph.tasks[t];
        if (!inside(task.region.value, plan.graph.regions.regions.size())) {
            faults.push_back(
                fmt::format("task #{} names region {}, which does not exist", t, task.region.value));
        }
        check_footprints(plan, t, task.reads, faults);
        check_footprints(plan, t, task.writes, faults);
    }
    std::vector<int> times(tasks, 0);
    for (const Worker& worker : plan.workers) {
        for (const Step& step : worker.queue) {
            if (!inside(step.task.value, tasks)) {
                faults.push_back(fmt::format("a queue names task {}, which does not exist", step.task.value));
                continue;
            }
            ++times[step.task.index()];
            for (const Wait& wait : step.waits) {
                if (!inside(wait.event.value, plan.events.size())) {
                    faults.push_back(fmt::format("task #{} waits for event {}, which does not exist",
                                                 step.task.value, wait.event.value));
                }
            }
            for (EventId event : step.signals) {
                if (!inside(event.value, plan.events.size())) {
                    faults.push_back(fmt::format("task #{} signals event {}, which does not exist",
                                                 step.task.value, event.value));
                }
            }
        }
    }
    for (std::size_t t = 0; t < tasks; ++t) {
        if (times[t] != 1) faults.push_back(fmt::format("task #{} is scheduled {} times", t, times[t]));
    }
    if (plan.offsets.size() != buffers.size()) {
        faults.push_back("the plan has no offset for every buffer");
        return faults;
    }
    for (std::size_t b = 0; b < buffers.size(); ++b) {
        if (buffers[b].role != BufferRole::Arena) continue;
        if (plan.offsets[b] < 0 || plan.offsets[b] + buffers[b].size_bytes() > plan.arena_bytes) {
            faults.push_back(fmt::format("buffer '{}' lies outside the arena", buffers[b].name));
        }
    }
    return faults;
}

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

/// Which tasks start if task `held` never does.
std::vector<bool> started_without(const Plan& plan, std::size_t held, const Play::Writers* writers) {
    std::vector<bool> started(plan.graph.tasks.size(), false);
    Play play(plan, writers);
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t worker = 0; worker < play.workers(); ++worker) {
            while (play.ready(worker) && play.next(worker).task.index() != held) {
                started[play.next(worker).task.index()] = true;
                play.complete(worker);
                progress = true;
            }
        }
    }
    return started;
}

/// The exact order of a plan's tasks: a task comes before another if the other cannot start unless it is complete.
/// Words show nothing but themselves and order nothing.
class HappensBefore {
public:
    explicit HappensBefore(const Plan& plan) {
        for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t)
            after_.push_back(started_without(plan, t, nullptr));
    }
    [[nodiscard]] bool operator()(std::size_t first, std::size_t second) const {
        return first != second && !after_[first][second];
    }

private:
    std::vector<std::vector<bool>> after_;  ///< [held][task]: does it start without the held one?
};

/// One box of one task as bytes of the memory that it lies in: the arena, or a bound buffer.
struct Touch {
    std::size_t task = 0;
    std::int32_t region = 0;
    std::int32_t buffer = 0;
    std::int32_t memory = 0;  ///< -1 for the arena, else the buffer
    bool write = false;
    bool may = false;
    bool words = false;        ///< of a tagged buffer
    std::vector<Range> bytes;  ///< ascending, disjoint
};

/// The bytes of a box, as runs along the last dimension; neighbouring runs are joined.
std::vector<Range> bytes_of(const Buffer& buffer, const Box& box, std::int64_t offset) {
    std::vector<Range> runs;
    if (volume(box) == 0) return runs;
    const std::int64_t size = buffer.element_bytes();
    const std::size_t rank = box.size();
    std::vector<std::int64_t> at;
    for (Range range : box) at.push_back(range.begin);
    for (bool more = true; more;) {
        std::int64_t element = 0;
        for (std::size_t d = 0; d < rank; ++d) element = element * buffer.shape[d] + at[d];
        const std::int64_t length = rank == 0 ? 1 : box.back().size();
        const Range run{offset + element * size, offset + (element + length) * size};
        if (!runs.empty() && runs.back().end == run.begin) {
            runs.back().end = run.end;
        } else {
            runs.push_back(run);
        }
        more = false;
        for (std::size_t d = rank; d-- > 0 && !more;) {
            if (d + 1 == rank) continue;
            more = ++at[d] < box[d].end;
            if (!more) at[d] = box[d].begin;
        }
    }
    return runs;
}

std::vector<Touch> touches(const Plan& plan) {
    std::vector<Touch> all;
    const auto add = [&](std::size_t t, const Footprint& footprint, bool write) {
        const Buffer& buffer = plan.graph.regions[footprint.buffer];
        const bool arena = buffer.role == BufferRole::Arena;
        const std::int64_t offset = arena ? plan.offsets[footprint.buffer.index()] : 0;
        all.push_back({t, plan.graph.tasks[t].region.value, footprint.buffer.value,
                       arena ? -1 : footprint.buffer.value, write, footprint.may, buffer.tagged,
                       bytes_of(buffer, footprint.box, offset)});
    };
    for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t) {
        for (const Footprint& footprint : plan.graph.tasks[t].reads) add(t, footprint, false);
        for (const Footprint& footprint : plan.graph.tasks[t].writes) add(t, footprint, true);
    }
    return all;
}

/// The bytes that both touch.
std::vector<Range> common(const std::vector<Range>& a, const std::vector<Range>& b) {
    std::vector<Range> out;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const Range both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
        if (!both.empty()) out.push_back(both);
        a[i].end < b[j].end ? ++i : ++j;
    }
    return out;
}

/// `bytes` without those of `covered`.
std::vector<Range> without(const std::vector<Range>& bytes, const std::vector<Range>& covered) {
    std::vector<Range> left;
    for (Range range : bytes) {
        for (Range part : covered) {
            if (!intersects(range, part)) continue;
            if (range.begin < part.begin) left.push_back({range.begin, part.begin});
            range.begin = std::min(range.end, part.end);
        }
        if (!range.empty()) left.push_back(range);
    }
    return left;
}

/// Which of two touches of one buffer the program puts first: that of the earlier region; in one region the read, as a
/// region sees the writes of earlier ones only.
const Touch& must_be_first(const Touch& a, const Touch& b) {
    if (a.region != b.region) return a.region < b.region ? a : b;
    return b.write ? a : b;
}
const Touch& must_be_last(const Touch& a, const Touch& b) { return &must_be_first(a, b) == &a ? b : a; }

/// Judges the order of every pair of tasks that touch common bytes.
void check_pairs(const Plan& plan, const std::vector<Touch>& all, const HappensBefore& before,
                 Faults& faults) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t j = i + 1; j < all.size(); ++j) {
            const Touch& a = all[i];
            const Touch& b = all[j];
            if (a.memory != b.memory || (!a.write && !b.write)) continue;
            const bool both_write =
                a.write && b.write;  // threads of one task are not ordered among themselves
            if (a.task == b.task && a.buffer == b.buffer && !a.words && !both_write) continue;
            const std::vector<Range> bytes = common(a.bytes, b.bytes);
            if (bytes.empty()) continue;
            const auto report = [&](const char* what) {
                faults.push_back(fmt::format(
                    "{}: tasks {} and {}, bytes [{}, {}) of {}", what, task_name(plan, TaskId(a.task)),
                    task_name(plan, TaskId(b.task)), bytes[0].begin, bytes[0].end,
                    a.memory < 0 ? "the arena" : plan.graph.regions.buffers[a.memory].name));
            };
            if (a.words || b.words) {
                if (a.buffer == b.buffer && both_write) report("two tasks write the same word");
                continue;
            }
            if (a.region == b.region && a.buffer == b.buffer && both_write) {
                if (!a.may || !b.may) report("one region writes the same bytes twice");
                continue;
            }
            if (!before(a.task, b.task) && !before(b.task, a.task)) {
                report("race");
            } else if (a.buffer == b.buffer && before(must_be_last(a, b).task, must_be_first(a, b).task)) {
                report("order of the program is reversed");
            }
        }
    }
}

/// Judges that what a task reads of the arena is there: written before, and not overwritten as another buffer since.
void check_reads(const Plan& plan, const std::vector<Touch>& all, const HappensBefore& before,
                 Faults& faults) {
    for (const Touch& read : all) {
        const bool volatile_memory =
            read.memory < 0 || plan.graph.regions.buffers[read.memory].role == BufferRole::Output;
        if (read.write || !volatile_memory) continue;
        std::vector<Range> missing = read.bytes;
        for (const Touch& write : all) {
            if (!write.write || write.memory != read.memory) continue;
            const bool there = read.words ? write.region < read.region : before(write.task, read.task);
            if (!there) continue;
            if (write.buffer == read.buffer) {
                if (!write.may) missing = without(missing, write.bytes);
                continue;
            }
            std::vector<Range> clobbered = common(write.bytes, read.bytes);
            for (const Touch& own : all) {
                if (!own.write || own.may || own.buffer != read.buffer) continue;
                const bool renews = before(write.task, own.task) && before(own.task, read.task);
                if (renews) clobbered = without(clobbered, own.bytes);
            }
            if (clobbered.empty()) continue;
            faults.push_back(fmt::format(
                "task {} overwrites what task {} reads of '{}'", task_name(plan, TaskId(write.task)),
                task_name(plan, TaskId(read.task)), plan.graph.regions.buffers[read.buffer].name));
        }
        if (!missing.empty()) {
            faults.push_back(fmt::format("task {} reads bytes [{}, {}) of '{}' that no task before it wrote",
                                         task_name(plan, TaskId(read.task)), missing[0].begin, missing[0].end,
                                         plan.graph.regions.buffers[read.buffer].name));
        }
    }
}

/// Another buffer's stores could change the tags of words.
void check_words_apart(const Plan& plan, const std::vector<Touch>& all, Faults& faults) {
    std::set<std::int32_t> touched;
    for (const Touch& touch : all) {
        if (touch.memory < 0) touched.insert(touch.buffer);
    }
    const auto bytes_of_buffer = [&](std::int32_t b) {
        const std::int64_t offset = plan.offsets[static_cast<std::size_t>(b)];
        return Range{offset, offset + plan.graph.regions[BufferId(b)].size_bytes()};
    };
    for (std::int32_t a : touched) {
        for (std::int32_t b : touched) {
            if (a == b || !plan.graph.regions[BufferId(a)].tagged) continue;
            if (!intersects(bytes_of_buffer(a), bytes_of_buffer(b))) continue;
            faults.push_back(fmt::format("the words of '{}' share bytes with '{}'",
                                         plan.graph.regions[BufferId(a)].name,
                                         plan.graph.regions[BufferId(b)].name));
        }
    }
}

/// A word that may stay unwritten would be waited for in vain.
void check_sure_writes(const Plan& plan, const std::vector<Touch>& all, Faults& faults) {
    for (const Touch& touch : all) {
        if (!touch.words || !touch.may) continue;
        faults.push_back(fmt::format("task {} may leave words of '{}' unwritten",
                                     task_name(plan, TaskId(touch.task)),
                                     plan.graph.regions.buffers[touch.buffer].name));
    }
}

void check_outputs(const Plan& plan, const std::vector<Touch>& all, Faults& faults) {
    for (std::size_t b = 0; b < plan.graph.regions.buffers.size(); ++b) {
        const Buffer& buffer = plan.graph.regions.buffers[b];
        if (buffer.role != BufferRole::Output || buffer.size_bytes() == 0) continue;
        std::vector<Range> missing{{0, buffer.size_bytes()}};
        for (const Touch& write : all) {
            if (write.write && write.memory == static_cast<std::int32_t>(b))
                missing = without(missing, write.bytes);
        }
        if (missing.empty()) continue;
        faults.push_back(fmt::format("nobody writes bytes [{}, {}) of output '{}'", missing[0].begin,
                                     missing[0].end, buffer.name));
    }
}

void check_signals(const Plan& plan, Faults& faults) {
    std::vector<std::uint32_t> received(plan.events.size(), 0);
    for (const Worker& worker : plan.workers) {
        for (const Step& step : worker.queue) {
            for (EventId event : step.signals) ++received[event.index()];
        }
    }
    for (std::size_t e = 0; e < received.size(); ++e) {
        if (received[e] == plan.events[e].signals) continue;
        faults.push_back(fmt::format("event {} receives {} signals in a launch, but states {}", e,
                                     received[e], plan.events[e].signals));
    }
}

}  // namespace

std::vector<std::string> exhaustive_check(const Plan& plan) {
    Faults faults = malformed(plan);
    if (!faults.empty()) return faults;
    check_words(plan.graph.regions, faults);
    check_signals(plan, faults);
    const Play::Writers writers = word_writers(plan);
    const std::vector<bool> started = started_without(plan, kNobody, &writers);
    if (!std::all_of(started.begin(), started.end(), [](bool yes) { return yes; })) {
        faults.push_back("the plan gets stuck");
        return faults;
    }
    const HappensBefore before(plan);
    const std::vector<Touch> all = touches(plan);
    check_pairs(plan, all, before, faults);
    check_reads(plan, all, before, faults);
    check_words_apart(plan, all, faults);
    check_sure_writes(plan, all, faults);
    check_outputs(plan, all, faults);
    return faults;
}

}  // namespace stretto
