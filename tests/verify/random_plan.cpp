#include "verify/random_plan.h"

#include <set>

#include "backends/reference/judge.h"
#include "verify/plans.h"

namespace stretto {
namespace {

constexpr int kRegions = 7;
constexpr std::int64_t kElements = 48;
constexpr std::int64_t kProductWidth = 64;

class Generator {
public:
    explicit Generator(Random& random) : random_(random), workers_(2 + below(4)), plan_(workers_) {}

    Plan run() {
        plan_.buffer("in", kElements, BufferRole::Input);
        plan_.buffer("state", kElements, BufferRole::State);
        plan_.buffer("out", kElements, BufferRole::Output);
        for (int r = 0; r < kRegions; ++r) {
            if (r + 1 < kRegions) plan_.buffer(value(r), kElements);
            tagged_.push_back(r + 1 < kRegions && below(3) == 0);
            if (tagged_.back()) plan_.tag(value(r));
            plan_.buffer(weight(r), 32 * kProductWidth, BufferRole::Parameter);
        }
        for (int r = 0; r < kRegions; ++r) region(r);
        Plan plan = plan_.finish();
        pack(plan);
        return plan;
    }

private:
    static std::string value(int region) { return "x" + std::to_string(region); }
    static std::string weight(int region) { return "w" + std::to_string(region); }
    int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

    /// Reads one or two earlier values whole or in part; the last region writes the output, some write the state.
    void region(int r) {
        std::vector<Part> reads;
        std::set<int> sources;
        for (int i = 0; i < 1 + below(2) && r > 0; ++i) {
            const int source = r - 1 - below(std::min(r, 3));
            if (!sources.insert(source).second) continue;
            reads.push_back({value(source), 0, below(2) == 0 ? kElements : kElements / 2});
        }
        if (r == 0) reads.push_back({"in", 0, kElements});
        const bool state_read = below(3) == 0;
        if (state_read) reads.push_back({"state", 0, kElements});
        const bool state_written = !state_read && below(3) == 0;
        const std::string target = r + 1 == kRegions ? "out" : value(r);
        const EventId done = plan_.event("r" + std::to_string(r));
        const int tasks = 1 + below(5);
        for (int t = 0; t < tasks; ++t) {
            const Part part{target, kElements * t / tasks, kElements * (t + 1) / tasks};
            std::vector<Part> writes{part};
            if (state_written) writes.push_back({"state", part.begin, part.end});
            const TaskId task = plan_.task("r" + std::to_string(r), below(workers_), reads, writes);
            for (int source : sources) {
                if (!tagged_[static_cast<std::size_t>(source)]) wait_for(task, source);
            }
            const bool waits_already = last_state_ >= 0 && sources.contains(last_state_) &&
                                       !tagged_[static_cast<std::size_t>(last_state_)];
            if ((state_read || state_written) && last_state_ >= 0 && !waits_already) {
                wait_for(task, last_state_);
            }
            plan_.signal(task, done);
        }
        events_.push_back({done, static_cast<std::uint32_t>(tasks)});
        if (state_read || state_written) last_state_ = r;
        if (below(2) == 0) {
            plan_.product("p" + std::to_string(r), below(workers_), weight(r), kProductWidth, {0, 20});
            plan_.product("p" + std::to_string(r), below(workers_), weight(r), kProductWidth, {20, 32});
        }
    }

    void wait_for(TaskId task, int region) {
        const auto [event, target] = events_[static_cast<std::size_t>(region)];
        plan_.wait(task, event, target);
    }

    /// Moves each arena buffer to the first place where the judge finds nothing wrong.
    static void pack(Plan& plan) {
        for (std::size_t b = 0; b < plan.offsets.size(); ++b) {
            if (plan.offsets[b] <= 0) continue;
            const std::int64_t own = plan.offsets[b];
            for (plan.offsets[b] = 0; plan.offsets[b] < own; plan.offsets[b] += 256) {
                if (exhaustive_check(plan).empty()) break;
            }
        }
    }

    Random& random_;
    int workers_;
    PlanBuilder plan_;
    std::vector<std::pair<EventId, std::uint32_t>> events_;  ///< by region, with its total
    std::vector<bool> tagged_;                               ///< by region: its value travels as words
    int last_state_ = -1;
};

}  // namespace

Plan random_correct_plan(Random& random) { return Generator(random).run(); }

}  // namespace stretto
