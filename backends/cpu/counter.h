#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace stretto {

/// An event of a plan on threads: a counter that only grows (modulo 2^32). Whoever sees a signal sees what its sender
/// did before.
class Counter {
public:
    enum class Outcome : std::uint8_t { Reached, TimedOut, Aborted };

    /// Adds one and wakes the sleepers whose target is reached.
    void signal();

    /// Waits until the counter has reached `target`: looks `spins` times, then sleeps. Gives up at `time_out`, or when
    /// `abort` is set and `wake` is called.
    [[nodiscard]] Outcome wait(std::uint32_t target, std::int32_t spins, std::chrono::nanoseconds time_out,
                               const std::atomic<bool>& abort);

    /// Lets all sleepers look again.
    void wake();

    [[nodiscard]] std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

    /// Back to zero. Requires: nobody waits or signals.
    void reset();

private:
    [[nodiscard]] static bool reached(std::uint32_t value, std::uint32_t target) {
        return static_cast<std::int32_t>(value - target) >= 0;
    }

    static constexpr std::int64_t kNobody = -1;

    std::atomic<std::uint32_t> value_{0};
    /// The nearest target of a sleeper. A sleeper writes it before its last look at the value, a sender reads it after
    /// its addition: sequential consistency makes sure that one of the two sees the other.
    std::atomic<std::int64_t> wake_at_{kNobody};
    std::mutex mutex_;
    std::condition_variable woken_;
};

}  // namespace stretto
