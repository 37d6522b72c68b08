#pragma once

#include "stretto/sync/events.h"

/// Stamps of a traced launch: one thread of a worker writes the SM's clock to global memory and goes on. Compiled in
/// where STRETTO_TRACED is defined; everything here is empty otherwise.
namespace stretto::device {

#ifdef STRETTO_TRACED
inline constexpr bool kTraced = true;
#else
inline constexpr bool kTraced = false;
#endif

__device__ __forceinline__ U64 cycles() {
    U64 now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}

/// The consumer thread that stamps. Its warp neither polls nor signals, where there are enough.
template <class Config>
[[nodiscard]] __device__ __forceinline__ bool is_recorder() {
    return threadIdx.x == Config::kThreads - 32;
}

/// Every consumer thread calls it; `moment` is a member of TaskStamps. A second stamp of a moment replaces the first.
template <class Config>
__device__ __forceinline__ void stamp(const abi::Launch& launch, U32 task, U64 abi::TaskStamps::*moment) {
    if constexpr (kTraced) {
        if (is_recorder<Config>()) launch.trace.tasks[task].*moment = cycles();
    }
}

/// A task that polls its inputs itself has them now; each thread that polled calls it. The recorder's own counts: it
/// stands for its warp, and the barrier of its kind for the others.
__device__ __forceinline__ void stamp_polled(const abi::Launch& launch, U32 task) {
    if constexpr (kTraced) {
        // The recorder by the size of the CTA: the loader's warp is the last, the recorder's the one before.
        if (threadIdx.x == blockDim.x - 64) launch.trace.tasks[task].ready = cycles();
    }
}

/// Called by the warp that signals, right behind its signals.
__device__ __forceinline__ void stamp_published(const abi::Launch& launch, U32 task) {
    if constexpr (kTraced) {
        if (threadIdx.x % 32 == 0) launch.trace.tasks[task].published = cycles();
    }
}

/// Adds up how long a task waits for loads. Every consumer thread makes one before such a wait.
template <class Config>
class StallClock {
public:
    __device__ __forceinline__ StallClock() {
        if constexpr (kTraced) start_ = cycles();
    }
    __device__ __forceinline__ void stop(const abi::Launch& launch, U32 task) const {
        if constexpr (kTraced) {
            if (is_recorder<Config>()) atomicAdd(&launch.trace.tasks[task].stalled, cycles() - start_);
        }
    }

private:
    U64 start_ = 0;
};

/// Called by the loader's warp; `load` counts all workers' loads.
__device__ __forceinline__ void stamp_issued(const abi::Launch& launch, U32 load) {
    if constexpr (kTraced) {
        if (threadIdx.x % 32 == 0) launch.trace.loads[load] = cycles();
    }
}

/// Reads both clocks at a tick of the timer: it may tick as rarely as once a microsecond, and the clocks can be
/// aligned more finely than that. `which` is a member of WorkerStamps. Called by all consumers; takes up to one tick.
template <class Config>
__device__ __forceinline__ void stamp_clocks(const abi::Launch& launch,
                                             abi::ClockPair abi::WorkerStamps::*which) {
    if constexpr (kTraced) {
        if (!is_recorder<Config>()) return;
        const U64 before = nanoseconds();
        abi::ClockPair pair{before, 0, 0};
        while (pair.timer == before) {
            pair.timer = nanoseconds();
            pair.cycles = cycles();
        }
        pair.step = pair.timer - before;
        launch.trace.workers[blockIdx.x].*which = pair;
    }
}

}  // namespace stretto::device
