#include "backends/reference/reference_executor.h"

#include <optional>
#include <random>
#include <set>
#include <vector>

#include "backends/reference/bind.h"
#include "backends/reference/iterations.h"
#include "backends/reference/play.h"
#include "backends/reference/twin.h"
#include "backends/reference/watch.h"
#include "backends/reference/word_values.h"
#include "backends/reference/word_writers.h"
#include "base/error.h"

namespace stretto {
namespace {

/// Picks the worker that goes next.
class Picker {
public:
    Picker(const ReferenceOptions& options, std::size_t workers)
        : order_(options.order), random_(options.seed), last_(options.seed % workers) {}

    [[nodiscard]] std::optional<std::size_t> pick(const Play& play) {
        std::vector<std::size_t> ready;
        for (std::size_t worker = 0; worker < play.workers(); ++worker) {
            if (play.ready(worker)) ready.push_back(worker);
        }
        if (ready.empty()) return std::nullopt;
        return choose(play, ready);
    }

private:
    std::size_t choose(const Play& play, const std::vector<std::size_t>& ready) {
        const auto by_task = [&](std::size_t a, std::size_t b) {
            return play.next(a).task < play.next(b).task;
        };
        switch (order_) {
            case Order::TaskNumber:
                return *std::min_element(ready.begin(), ready.end(), by_task);
            case Order::Random:
                return ready[random_() % ready.size()];
            case Order::LastWorker:
                return ready.back();
            case Order::Starve:
                return ready.front() == last_ && ready.size() > 1 ? ready[1] : ready.front();
            case Order::DepthFirst:
                break;
        }
        if (std::find(ready.begin(), ready.end(), last_) == ready.end())
            last_ = ready[random_() % ready.size()];
        return last_;
    }

    Order order_;
    std::mt19937_64 random_;
    std::size_t last_;  ///< DepthFirst: the worker that went last; Starve: the one that waits for all others
};

class ReferenceExecutor final : public Executor {
public:
    ReferenceExecutor(Plan plan, const ReferenceOptions& options)
        : plan_(std::move(plan)),
          options_(options),
          twins_(plan_.graph.regions, options.consumer_warps),
          writers_(word_writers(plan_)),
          arena_(plan_),
          stop_workers_(stop_workers(plan_)),
          written_(plan_.graph.regions.regions.size()) {
        const RegionGraph& graph = plan_.graph.regions;
        for (std::size_t i = 0; i < written_.size(); ++i) {
            for (const Use& use : uses(graph.regions[i])) {
                const BufferId id(use.access->source);
                if (use.write && graph[id].role == BufferRole::Arena) written_[i].insert(id);
            }
        }
    }

    void run(const Bindings& bindings, void* /*stream*/, const Iterations& iterations) override {
        const std::vector<std::byte*> bases = base_addresses(plan_, bindings, arena_.data());
        RunningLaunch launch(stop_workers_, bases, iterations);
        do run_once(bases);
        while (launch.goes_on());
    }

    void synchronize() override {}

private:
    void run_once(const std::vector<std::byte*>& bases) {
        arena_.poison();
        Watch watch(plan_);
        Workspace workspace;
        workspace.guard = &watch;
        Picker picker(options_, plan_.workers.size());
        Play play(plan_, &writers_);
        std::vector<std::int64_t> left;  // tasks by region
        for (const Range& tasks : plan_.graph.tasks_of) left.push_back(tasks.end - tasks.begin);
        std::vector<std::int64_t> writers(bases.size());  // regions by buffer
        for (const std::set<BufferId>& written : written_) {
            for (const BufferId id : written) ++writers[id.index()];
        }
        while (const auto worker = picker.pick(play)) {
            const TaskId task = play.next(*worker).task;
            watch.begin(task, *worker);
            twins_.run(plan_.graph[task], bases, workspace);
            round_to_words(plan_, plan_.graph[task], bases);
            play.complete(*worker);
            const RegionId region = plan_.graph[task].region;
            if (--left.at(region.index()) > 0 || !options_.stored) continue;
            for (const BufferId id : written_[region.index()]) {
                if (--writers[id.index()] == 0) show(region, id, bases);
            }
        }
        const std::string blocked = play.blocked();
        if (!blocked.empty()) throw RunError("the plan is stuck: no worker can go on" + blocked);
    }

    /// Before whoever uses the memory again.
    void show(RegionId region, BufferId id, const std::vector<std::byte*>& bases) const {
        const Buffer& buffer = plan_.graph.regions[id];
        // Words hold their elements densely here.
        const auto size = static_cast<std::size_t>(volume(buffer.shape)) * size_of(buffer.dtype);
        options_.stored(region, id, {bases[id.index()], size});
    }

    Plan plan_;
    ReferenceOptions options_;
    Twins twins_;
    Play::Writers writers_;
    Arena arena_;
    StopWorkers stop_workers_;
    std::vector<std::set<BufferId>> written_;  ///< arena buffers, by region
};

}  // namespace

std::unique_ptr<Executor> make_reference_executor(Plan plan, const ReferenceOptions& options) {
    return std::make_unique<ReferenceExecutor>(std::move(plan), options);
}

}  // namespace stretto
