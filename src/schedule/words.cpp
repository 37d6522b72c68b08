#include "schedule/words.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "base/division.h"
#include "base/warp.h"
#include "fuse/passes.h"
#include "fuse/product_kind.h"
#include "fuse/reduce_lanes.h"
#include "tile/dependencies.h"

namespace stretto {
namespace {

/// Bytes that a thread of a product asks for together, before it looks at the first.
constexpr std::int64_t kPolledTogether = 64;
/// What packed words must save each reader, as they take a bit of F32.
constexpr double kPackedSaves = 0.25;  ///< us

/// What one task polls of a buffer: all its threads together, and how often a thread waits for an answer.
struct Polls {
    std::int64_t words = 0;
    std::int64_t rounds = 0;
};

bool reads(const Access& access, BufferId buffer) { return access.source == buffer.value; }

std::int64_t count_reads(const Expr& expr, BufferId buffer) {
    return std::count_if(expr.accesses.begin(), expr.accesses.end(),
                         [&](const Access& access) { return reads(access, buffer); });
}

std::int64_t count_reads(const std::vector<Store>& stores, BufferId buffer) {
    std::int64_t count = 0;
    for (const Store& store : stores) count += count_reads(store.expr, buffer);
    return count;
}

/// Every thread waits for each of its loads before it asks for the next.
Polls one_by_one(std::int64_t loads, std::int64_t points, std::int64_t threads) {
    return {loads * points, loads * ceil_div(points, threads)};
}

/// The polls of one task; nothing where its kind cannot wait for the elements that it reads.
class PollCount {
public:
    PollCount(BufferId buffer, const Task& task, std::int64_t threads, std::int64_t word_bytes)
        : buffer_(buffer), task_(task), threads_(threads), word_bytes_(word_bytes) {}

    std::optional<Polls> operator()(const MapRegion& map) const {
        return together(count_reads(map.stores, buffer_), task_.tile[0].size());
    }

    std::optional<Polls> operator()(const ReduceRegion& reduce) const {
        std::int64_t loads = 0;
        for (const Pass& pass : passes_of(reduce)) loads += count_reads(pass.expr, buffer_);
        if (reduce_lanes(reduce).vector > 1 && loads > 0) return std::nullopt;
        if (count_reads(reduce.element_stores, buffer_) > 0) return std::nullopt;
        const std::int64_t kept = task_.tile[0].size();
        const Shape inner(reduce.space.begin() + reduce.kept, reduce.space.end());
        const bool by_warp = reduce_lanes(reduce).way != ReduceLanes::Way::Together;
        Polls polls = one_by_one(loads, kept * volume(inner), threads_);
        const Polls stores =
            one_by_one(count_reads(reduce.stores, buffer_), kept, by_warp ? threads_ / kLanesOfWarp : 1);
        return Polls{polls.words + stores.words, polls.rounds + stores.rounds};
    }

    std::optional<Polls> operator()(const MatMulRegion& matmul) const {
        for (const Access& weight : matmul.weights) {
            if (reads(weight, buffer_)) return std::nullopt;
        }
        const bool copied = product_kind(matmul) == abi::ProductKind::Tiles;
        if (copied && count_reads(matmul.a, buffer_) > 0) return std::nullopt;
        const std::int64_t rows = task_.tile[0].size() * task_.tile[1].size();
        // Equal loads of the left side and of its statistics are one.
        std::int64_t loads = count_reads(matmul.a, buffer_);
        for (const RowStat& stat : matmul.stats) {
            if (count_reads(stat.finish, buffer_) > 0) return std::nullopt;
            loads = std::max(loads, count_reads(stat.term, buffer_));
        }
        const std::int64_t positions = rows * ceil_div(matmul.space[3], threads_);
        const Polls left{loads * rows * matmul.space[3],
                         loads > 0 ? ceil_div(positions * word_bytes_, kPolledTogether) : 0};
        const std::int64_t outputs = rows * task_.tile[2].size();
        const Polls stores = together(count_reads(matmul.stores, buffer_), outputs);
        return Polls{left.words + stores.words, left.rounds + stores.rounds};
    }

    std::optional<Polls> operator()(const AttentionRegion& attention) const {
        if (reads(attention.key, buffer_) || reads(attention.value, buffer_)) return std::nullopt;
        const std::int64_t queries = task_.tile[0].size() * task_.tile[2].size();
        const std::int64_t rows = queries * attention.group * attention.space[4];
        const Polls query = together(count_reads(attention.query, buffer_), rows);
        const Polls key = together(count_reads(attention.fresh.key, buffer_), attention.space[4]);
        const Polls value = together(count_reads(attention.fresh.value, buffer_), attention.space[4]);
        const Polls row = one_by_one(count_reads(attention.fresh.row, buffer_), 1, 1);
        const Polls mask =
            one_by_one(count_reads(attention.mask, buffer_), queries * attention.group * attention.space[3],
                       threads_ / kLanesOfWarp);
        const Polls length = one_by_one(count_reads(attention.length, buffer_), queries, 1);
        Polls sum;
        for (const Polls& part : {query, key, value, row, mask, length}) {
            sum.words += part.words;
            sum.rounds += part.rounds;
        }
        return sum;
    }

    std::optional<Polls> operator()(const ScoredRegion& scored) const {
        if (reads_in_main_loop(scored)) return std::nullopt;
        const std::int64_t outputs = task_.tile[1].size() * scored.space[2];
        const Polls stores = together(count_reads(scored.stores, buffer_), outputs);
        const Polls rows =
            one_by_one(count_reads(scored.row_stores, buffer_), task_.tile[1].size(), threads_);
        return Polls{stores.words + rows.words, stores.rounds + rows.rounds};
    }

private:
    [[nodiscard]] bool reads_in_main_loop(const ScoredRegion& scored) const {
        const bool in_scores = std::any_of(
            scored.scores.begin(), scored.scores.end(),
            [&](const Score& score) { return reads(score.left, buffer_) || reads(score.right, buffer_); });
        return in_scores || std::any_of(scored.sums.begin(), scored.sums.end(), [&](const ScoredSum& sum) {
                   return (sum.factor && reads(*sum.factor, buffer_)) || count_reads(sum.weight, buffer_) > 0;
               });
    }

    /// The loads of a point are on their way together.
    [[nodiscard]] Polls together(std::int64_t loads, std::int64_t points) const {
        return {loads * points, loads == 0 ? 0 : ceil_div(points, threads_)};
    }

    BufferId buffer_;
    const Task& task_;
    std::int64_t threads_;
    std::int64_t word_bytes_;
};

class Chooser {
public:
    Chooser(TaskGraph& graph, const std::vector<std::int32_t>& worker_of, const Machine& machine,
            double up_to)
        : graph_(graph), worker_of_(worker_of), machine_(machine), most_us_(up_to * machine.counter_us) {
        uses_.resize(graph.regions.buffers.size());
        for (std::size_t r = 0; r < graph.regions.regions.size(); ++r) {
            for (const Use& use : uses(graph.regions.regions[r])) {
                Users& users = uses_[static_cast<std::size_t>(use.access->source)];
                (use.write ? users.writers : users.readers).insert(r);
                if (!use.access->indirect.empty()) users.indirect = true;
            }
        }
    }

    void run() {
        std::vector<std::size_t> tagged;
        for (std::size_t b = 0; b < uses_.size(); ++b) {
            if (!can_be_tagged(b)) continue;
            Buffer& buffer = graph_.regions.buffers[b];
            const double whole_us = dearest_us(b, kWordBytes);
            const double packed_us = is_float(buffer.dtype) ? dearest_us(b, kPackedWordBytes) : whole_us;
            buffer.packed = packed_us < most_us_ && packed_us + kPackedSaves < whole_us;
            buffer.tagged = buffer.packed || whole_us < most_us_;
            if (buffer.tagged) tagged.push_back(b);
        }
        if (tagged.empty()) return;
        const auto orders = orders_beside_words(graph_);
        for (std::size_t b : tagged) {
            if (spares_a_counter(b, orders)) continue;
            graph_.regions.buffers[b].tagged = false;
            graph_.regions.buffers[b].packed = false;
        }
    }

private:
    struct Users {
        std::set<std::size_t> writers;  ///< regions
        std::set<std::size_t> readers;
        bool indirect = false;  ///< some place depends on data
    };

    /// Words are written once in a launch, and both sides know which.
    [[nodiscard]] bool can_be_tagged(std::size_t b) const {
        const Buffer& buffer = graph_.regions.buffers[b];
        const Users& users = uses_[b];
        const bool fits =
            buffer.dtype == DType::I32 || (is_float(buffer.dtype) && size_of(buffer.dtype) <= 4);
        return buffer.role == BufferRole::Arena && fits && !users.indirect && users.writers.size() == 1 &&
               !users.readers.empty();
    }

    /// What words of some bytes cost the task that they cost most; infinite where a reader cannot wait for them.
    [[nodiscard]] double dearest_us(std::size_t b, std::int64_t word_bytes) const {
        const BufferId buffer(static_cast<std::int64_t>(b));
        const std::int64_t threads = machine_.consumer_warps * kLanesOfWarp;
        double most = 0;
        for (std::size_t r : uses_[b].readers) {
            const Range tasks = graph_.tasks_of[r];
            for (std::int64_t t = tasks.begin; t < tasks.end; ++t) {
                const Task& task = graph_.tasks[static_cast<std::size_t>(t)];
                const auto polls =
                    std::visit(PollCount(buffer, task, threads, word_bytes), graph_.regions.regions[r].body);
                if (!polls) return std::numeric_limits<double>::infinity();
                most = std::max(most, cost(*polls, word_bytes));
            }
        }
        return most;
    }

    [[nodiscard]] double cost(const Polls& polls, std::int64_t word_bytes) const {
        return machine_.word_us +
               static_cast<double>(std::max<std::int64_t>(polls.rounds - 1, 0)) * machine_.load_latency_us +
               static_cast<double>(polls.words * word_bytes) * machine_.word_byte_us;
    }

    /// Is there a reader on another worker that needs no counter for the region that writes the buffer?
    [[nodiscard]] bool spares_a_counter(std::size_t b, const std::vector<std::vector<Range>>& orders) const {
        const Range written = graph_.tasks_of[*uses_[b].writers.begin()];
        return std::any_of(uses_[b].readers.begin(), uses_[b].readers.end(), [&](std::size_t r) {
            const Range tasks = graph_.tasks_of[r];
            bool apart = false;
            for (std::int64_t t = tasks.begin; t < tasks.end; ++t) {
                for (Range range : orders[static_cast<std::size_t>(t)]) {
                    if (intersects(range, written)) return false;
                }
                apart |= reads_from_another_worker(t, written);
            }
            return apart;
        });
    }

    [[nodiscard]] bool reads_from_another_worker(std::int64_t reader, Range written) const {
        const auto worker = [&](std::int64_t task) { return worker_of_[static_cast<std::size_t>(task)]; };
        for (Range range : graph_.tasks[static_cast<std::size_t>(reader)].after) {
            for (std::int64_t t = std::max(range.begin, written.begin); t < std::min(range.end, written.end);
                 ++t) {
                if (worker(t) != worker(reader)) return true;
            }
        }
        return false;
    }

    TaskGraph& graph_;
    const std::vector<std::int32_t>& worker_of_;
    const Machine& machine_;
    double most_us_;           ///< that words may cost
    std::vector<Users> uses_;  ///< by buffer
};

}  // namespace

std::vector<std::vector<Range>> orders_beside_words(const TaskGraph& graph) {
    std::vector<std::vector<Range>> orders;
    orders.reserve(graph.tasks.size());
    const auto tagged = [&](const Buffer& buffer) { return buffer.tagged; };
    if (std::none_of(graph.regions.buffers.begin(), graph.regions.buffers.end(), tagged)) {
        for (const Task& task : graph.tasks) orders.push_back(task.after);
        return orders;
    }
    TaskGraph plain = graph;
    for (Task& task : plain.tasks) {
        const auto in_words = [&](const Footprint& print) { return graph.regions[print.buffer].tagged; };
        std::erase_if(task.reads, in_words);
        std::erase_if(task.writes, in_words);
        task.after.clear();
    }
    find_dependencies(plain);
    for (Task& task : plain.tasks) orders.push_back(std::move(task.after));
    return orders;
}

void choose_words(TaskGraph& graph, const std::vector<std::int32_t>& worker_of, const Machine& machine,
                  double up_to) {
    Chooser(graph, worker_of, machine, up_to).run();
}

}  // namespace stretto
