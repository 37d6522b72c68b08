#pragma once

#include "stretto/types.h"

/// Hand-offs between workers: monotonic counters in global memory, and the bounded waits for them.
namespace stretto::device {

__device__ __forceinline__ U32 load_acquire(const U32* at) {
    U32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

/// Publishes what this CTA wrote before its last barrier: release is cumulative over what the barrier ordered
/// (PTX ISA, "Memory Consistency Model", causality order).
__device__ __forceinline__ void add_release(U32* at, U32 value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

__device__ __forceinline__ void add_release(U64* at, U64 value) {
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

__device__ __forceinline__ U64 nanoseconds() {
    U64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/// What a wait was for, should it time out.
struct WaitFor {
    U32 task;
    U32 event;
    U32 seen;
    U32 wanted;
};

/// Bounds one wait. Cheap until the wait turns out to be long: the clock and the abort flag are read every 256 polls.
class Patience {
public:
    __device__ __forceinline__ Patience(const abi::Launch& launch, U64 timeout_ns)
        : error_(launch.error), timeout_(timeout_ns) {}

    /// Counts one poll. True: give up, because this wait timed out (it is reported then) or another did.
    __device__ __forceinline__ bool over(const WaitFor& wait) {
        if ((++polls_ & 255) != 0) return false;
        if (*static_cast<volatile U32*>(&error_->flag) != 0) return true;
        const U64 now = nanoseconds();
        if (start_ == 0) start_ = now;
        if (now - start_ < timeout_) return false;
        report(wait);
        return true;
    }

private:
    __device__ __forceinline__ void report(const WaitFor& wait) {
        if (atomicCAS(&error_->flag, 0u, 1u) != 0u) return;
        error_->worker = blockIdx.x;
        error_->task = wait.task;
        error_->event = wait.event;
        error_->seen = wait.seen;
        error_->wanted = wait.wanted;
    }

    abi::ErrorBlock* error_;
    U64 timeout_;
    U64 start_ = 0;
    U32 polls_ = 0;
};

/// Waits, as one whole warp, for all events of a record: lane i polls wait i. False: the launch is given up.
__device__ __forceinline__ bool wait_for_events(const abi::Record& record, const abi::Launch& launch,
                                                U32 epoch) {
    const U32 lane = threadIdx.x % 32;
    bool holds = lane >= record.wait_count;
    const abi::Wait wait = record.waits[holds ? 0 : lane];
    const U32 wanted = epoch * wait.total + wait.target;
    const U32* counter = launch.counters + static_cast<I64>(wait.event) * abi::kCounterStride;
    Patience patience(launch, launch.timeout_ns);
    while (true) {
        bool over = false;
        if (!holds) {
            const U32 seen = load_acquire(counter);
            holds = static_cast<I32>(seen - wanted) >= 0;  // the difference is right even where counters wrap
            if (!holds) over = patience.over({record.task, wait.event, seen, wanted});
        }
        if (__all_sync(~0u, holds)) return true;
        if (__any_sync(~0u, over)) return false;
    }
}

/// Signals a record's events; called by one warp after the consumers' barrier.
__device__ __forceinline__ void signal_events(const abi::Record& record, const abi::Launch& launch) {
    const U32 lane = threadIdx.x % 32;
    if (lane < record.signal_count) {
        add_release(launch.counters + static_cast<I64>(record.signals[lane]) * abi::kCounterStride, 1);
    }
}

}  // namespace stretto::device
