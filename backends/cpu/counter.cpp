#include "backends/cpu/counter.h"

namespace stretto {

void Counter::signal() {
    const std::uint32_t value = value_.fetch_add(1, std::memory_order_seq_cst) + 1;
    const std::int64_t wake_at = wake_at_.load(std::memory_order_seq_cst);
    if (wake_at != kNobody && reached(value, static_cast<std::uint32_t>(wake_at))) wake();
}

void Counter::wake() {
    const std::lock_guard lock(mutex_);
    wake_at_.store(kNobody, std::memory_order_seq_cst);
    woken_.notify_all();
}

Counter::Outcome Counter::wait(std::uint32_t target, std::int32_t spins, std::chrono::nanoseconds time_out,
                               const std::atomic<bool>& abort) {
    for (std::int32_t i = 0; i <= spins; ++i) {
        if (reached(value(), target)) return Outcome::Reached;
    }
    const auto deadline = std::chrono::steady_clock::now() + time_out;
    std::unique_lock lock(mutex_);
    while (true) {
        const std::int64_t wake_at = wake_at_.load(std::memory_order_seq_cst);
        if (wake_at == kNobody || reached(static_cast<std::uint32_t>(wake_at), target)) {
            wake_at_.store(target, std::memory_order_seq_cst);
        }
        if (reached(value_.load(std::memory_order_seq_cst), target)) return Outcome::Reached;
        if (abort.load(std::memory_order_seq_cst)) return Outcome::Aborted;
        if (woken_.wait_until(lock, deadline) == std::cv_status::timeout) {
            return reached(value(), target) ? Outcome::Reached : Outcome::TimedOut;
        }
    }
}

void Counter::reset() {
    value_.store(0, std::memory_order_relaxed);
    wake_at_.store(kNobody, std::memory_order_relaxed);
}

}  // namespace stretto
