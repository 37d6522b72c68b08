#include "backends/cpu/cpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/counter.h"
#include "backends/cpu/word_courier.h"
#include "backends/reference/bind.h"
#include "backends/reference/iterations.h"
#include "backends/reference/play.h"
#include "backends/reference/twin.h"
#include "base/error.h"
#include "profile/stamps.h"

namespace stretto {
namespace {

/// Looks at an event before a thread goes to sleep: about 20 us, less than a sleep and a wake-up cost.
constexpr std::int32_t kSpins = 20'000;

/// Longest pause between two looks at a word, in microseconds.
constexpr int kLongestPause = 500;

/// Random pauses that make rare interleavings likely.
class Delays {
public:
    Delays(const CpuOptions& options, std::size_t worker)
        : random_(options.delay_seed * 1'000'003 + worker), max_(options.max_delay.count()) {}

    void pause() {
        if (max_ == 0 || random_() % 2 == 0) return;
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % static_cast<std::uint64_t>(max_)));
    }

private:
    std::mt19937_64 random_;
    std::int64_t max_;
};

double microseconds_now() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

class CpuExecutor final : public Executor {
public:
    CpuExecutor(Plan plan, const CpuOptions& options)
        : plan_(std::move(plan)),
          options_(options),
          twins_(plan_.graph.regions, options.consumer_warps),
          arena_(plan_),
          stop_workers_(stop_workers(plan_)),
          counters_(plan_.events.size()),
          workspaces_(plan_.workers.size()),
          times_(options.traced ? plan_.graph.tasks.size() : 0) {
        const bool crowded = plan_.workers.size() > std::thread::hardware_concurrency();
        spins_ = crowded ? 0 : kSpins;
        for (std::size_t worker = 0; worker < plan_.workers.size(); ++worker) {
            delays_.emplace_back(options, worker);
            couriers_.emplace_back(plan_, arena_.data());
        }
        for (std::size_t worker = 1; worker < plan_.workers.size(); ++worker) {
            threads_.emplace_back([this, worker] { serve(worker); });
        }
    }

    CpuExecutor(const CpuExecutor&) = delete;
    CpuExecutor& operator=(const CpuExecutor&) = delete;

    ~CpuExecutor() override {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
        }
        started_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void run(const Bindings& bindings, void* /*stream*/, const Iterations& iterations) override {
        bases_ = base_addresses(plan_, bindings, arena_.data());
        running_launch_.emplace(stop_workers_, bases_, iterations);
        {
            const std::lock_guard lock(mutex_);
            ++launch_;
            running_ = threads_.size();
        }
        started_.notify_all();
        if (!plan_.workers.empty()) work(0);
        std::unique_lock lock(mutex_);
        finished_.wait(lock, [this] { return running_ == 0; });
        if (!failure_) return;
        for (Counter& counter : counters_) counter.reset();
        arena_.poison();
        epoch_ = 0;
        arrived_ = 0;
        abort_ = false;
        std::rethrow_exception(std::exchange(failure_, nullptr));
    }

    void synchronize() override {}

    [[nodiscard]] Trace trace() const override {
        if (!options_.traced) return Executor::trace();
        Trace trace;
        trace.backend = "cpu";
        trace.tick = 1e6 * std::chrono::steady_clock::period::num / std::chrono::steady_clock::period::den;
        trace.tasks = times_;
        trace.loads.resize(plan_.workers.size());
        start_at_zero(trace);
        return trace;
    }

private:
    /// What a worker's thread does: one queue for every launch.
    void serve(std::size_t worker) {
        std::uint64_t seen = 0;
        while (true) {
            {
                std::unique_lock lock(mutex_);
                started_.wait(lock, [&] { return closing_ || launch_ != seen; });
                if (closing_) return;
                seen = launch_;
            }
            work(worker);
            const std::lock_guard lock(mutex_);
            if (--running_ == 0) finished_.notify_one();
        }
    }

    void work(std::size_t worker) {
        try {
            // Nobody changes the epoch before all workers meet at the end of an iteration.
            do run_queue(worker, epoch_);
            while (meet());
        } catch (...) {
            fail(std::current_exception());
        }
    }

    void stamp(const Step& step, double TaskTimes::*moment) {
        if (options_.traced) times_[step.task.index()].*moment = microseconds_now();
    }

    void run_queue(std::size_t worker, std::uint32_t epoch) {
        for (const Step& step : plan_.workers[worker].queue) {
            stamp(step, &TaskTimes::begun);
            for (const Wait& wait : step.waits) {
                if (!await(worker, step, wait, epoch)) return;
            }
            stamp(step, &TaskTimes::ready);
            stamp(step, &TaskTimes::staged);
            delays_[worker].pause();
            if (!run_task(worker, step, epoch)) return;
            delays_[worker].pause();
            stamp(step, &TaskTimes::computed);
            for (EventId event : step.signals) counters_[event.index()].signal();
            stamp(step, &TaskTimes::published);
        }
    }

    /// Ends an iteration on one worker: waits for the others. False where no iteration follows. No clock bounds this
    /// wait: those who are missing either run a task or wait for an event, which ends in `fail`.
    bool meet() {
        std::unique_lock lock(mutex_);
        const std::uint32_t epoch = epoch_;
        if (++arrived_ == plan_.workers.size()) {
            arrived_ = 0;
            ++epoch_;
            goes_on_ = running_launch_->goes_on();
            met_.notify_all();
        }
        met_.wait(lock, [&] { return epoch_ != epoch || abort_; });
        return goes_on_ && !abort_;
    }

    /// Waits for the task's words, runs it, and publishes its own. False where the launch is over because some worker
    /// failed.
    bool run_task(std::size_t worker, const Step& step, std::uint32_t epoch) {
        const Task& task = plan_.graph[step.task];
        WordCourier& courier = couriers_[worker];
        const std::uint32_t tag = epoch + 1;
        const auto deadline = std::chrono::steady_clock::now() + options_.time_out;
        const auto missing = courier.receive(task, tag, [&](int polls) {
            // Pauses grow, so that a crowd of waiting workers leaves the processors to those that run.
            std::this_thread::sleep_for(std::chrono::microseconds(std::min(polls, kLongestPause)));
            return !abort_ && std::chrono::steady_clock::now() < deadline;
        });
        if (missing && abort_) return false;
        if (missing) {
            throw RunError(fmt::format("worker {} waited {} ms with task {} for a word of buffer {} '{}'",
                                       worker, options_.time_out.count(), task_name(plan_, step.task),
                                       missing->value, plan_.graph.regions[*missing].name));
        }
        twins_.run(task, courier.bases(bases_), workspaces_[worker]);
        courier.publish(task, tag);
        return true;
    }

    /// False where the launch is over because some worker failed.
    bool await(std::size_t worker, const Step& step, const Wait& wait, std::uint32_t epoch) {
        const Event& event = plan_.events[wait.event.index()];
        const std::uint32_t base = epoch * event.signals;
        Counter& counter = counters_[wait.event.index()];
        switch (counter.wait(base + wait.target, spins_, options_.time_out, abort_)) {
            case Counter::Outcome::Reached:
                return true;
            case Counter::Outcome::Aborted:
                return false;
            case Counter::Outcome::TimedOut:
                break;
        }
        throw RunError(
            fmt::format("worker {} waited {} ms with task {} for event {} {}: {} of {} signals came", worker,
                        options_.time_out.count(), task_name(plan_, step.task), wait.event.value, event.name,
                        counter.value() - base, wait.target));
    }

    /// Ends the launch on all workers. The first failure is the one that `run` throws.
    void fail(std::exception_ptr failure) {
        {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_ = std::move(failure);
            abort_ = true;
        }
        met_.notify_all();
        for (Counter& counter : counters_) counter.wake();
    }

    Plan plan_;
    CpuOptions options_;
    Twins twins_;
    Arena arena_;
    StopWorkers stop_workers_;
    std::vector<Counter> counters_;
    std::vector<Workspace> workspaces_;
    std::vector<WordCourier> couriers_;
    std::vector<Delays> delays_;
    std::vector<TaskTimes> times_;  ///< by task, of a traced launch
    std::vector<std::byte*> bases_;
    std::optional<RunningLaunch> running_launch_;
    std::int32_t spins_ = 0;
    std::atomic<bool> abort_{false};

    std::mutex mutex_;  ///< guards the members below
    std::condition_variable started_;
    std::condition_variable finished_;
    std::condition_variable met_;
    std::uint32_t epoch_ = 0;  ///< iterations since the counters were zero
    std::size_t arrived_ = 0;  ///< workers at the end of this iteration
    bool goes_on_ = false;
    std::uint64_t launch_ = 0;
    std::size_t running_ = 0;
    bool closing_ = false;
    std::exception_ptr failure_;
    std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(Plan plan, const CpuOptions& options) {
    return std::make_unique<CpuExecutor>(std::move(plan), options);
}

}  // namespace stretto
