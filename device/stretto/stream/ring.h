#pragma once

#include "stretto/profile/stamps.h"
#include "stretto/sync/barrier.h"
#include "stretto/sync/events.h"

/// The ring of shared memory through which one worker's weights stream: the loader warp runs ahead, the consumer
/// warps all read every slot, in order.
namespace stretto::device {

/// Start of a worker's shared memory: what the kernel itself needs.
struct Control {
    Mbarrier full[abi::kMaxSlots];
    Mbarrier empty[abi::kMaxSlots];
    abi::Record records[2];  ///< the running task's and the next one's
    U32 epoch;               ///< iterations before this launch
    U32 tag;                 ///< of the words of this iteration: its epoch plus one
    U32 ended[2];            ///< by parity of the epoch: nonzero once an iteration has ended the launch early
    // Nonzero: a wait of the task was given up. By place in `records`, and written on one side of one barrier only, so
    // that all consumer warps read the same value behind it and leave together.
    U32 events_given_up[2];  ///< written before the barrier that starts the task
    U32 loads_given_up[2];   ///< of loads and words: written before the barrier that ends it
};
static_assert(sizeof(Control) <= abi::kControlBytes);

__device__ __forceinline__ unsigned char* shared_memory() {
    extern __shared__ __align__(128) unsigned char stretto_shared[];
    return stretto_shared;
}
__device__ __forceinline__ Control& control() { return *reinterpret_cast<Control*>(shared_memory()); }

template <class Config>
__device__ __forceinline__ unsigned char* slot_memory(U32 slot) {
    return shared_memory() + abi::kControlBytes + slot * Config::kSlotBytes;
}
template <class Config>
__device__ __forceinline__ unsigned char* scratch() {
    return shared_memory() + abi::kControlBytes + Config::kSlots * Config::kSlotBytes;
}

/// Position in the ring: the next slot and the parity of its generation. Passed by value: it lives in registers.
struct Cursor {
    U32 slot = 0;
    U32 parity = 0;

    template <class Config>
    [[nodiscard]] __device__ __forceinline__ Cursor next() const {
        const bool wraps = slot + 1 == Config::kSlots;
        return {wraps ? 0 : slot + 1, wraps ? parity ^ 1 : parity};
    }
};

#if __CUDA_ARCH__ >= 900
inline constexpr U32 kFillArrivals = 1;
#else
inline constexpr U32 kFillArrivals =
    32;  ///< every lane of the loader arrives when its own copies have landed
#endif

/// Called by one thread before the first __syncthreads.
template <class Config>
__device__ __forceinline__ void init_ring() {
    for (int slot = 0; slot < Config::kSlots; ++slot) {
        control().full[slot].init(kFillArrivals);
        control().empty[slot].init(Config::kWarps);
    }
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// Waits until the slot holds its load. After a time-out it returns too: the task then runs on stale bytes, its
/// result is dropped, and the worker leaves at the end of the task, where all warps meet.
template <class Config>
__device__ __forceinline__ const unsigned char* wait_full(Cursor cursor, const abi::Record& record,
                                                          const abi::Launch& launch) {
    const Mbarrier& full = control().full[cursor.slot];
    const StallClock<Config> stall;
    if (!full.passed(cursor.parity)) {
        Patience patience(launch, launch.timeout_ns);
        while (!full.passed(cursor.parity)) {
            if (patience.over({record.task, abi::kRingEvent, cursor.parity, cursor.slot})) {
                control().loads_given_up[&record - control().records] = 1;
                break;
            }
        }
    }
    stall.stop(launch, record.task);
    return slot_memory<Config>(cursor.slot);
}

/// This warp is done with the next `Count` slots; returns the position behind them.
template <int Count, class Config>
__device__ __forceinline__ Cursor release_slots(Cursor cursor) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Count; ++i) {
        if (threadIdx.x % 32 == 0) control().empty[cursor.slot].arrive();
        cursor = cursor.template next<Config>();
    }
    return cursor;
}

#if __CUDA_ARCH__ >= 900
/// True in one lane of the warp. The compiler knows that it is one: it then issues bulk copies without a loop over lanes.
__device__ __forceinline__ bool elected() {
    U32 mine;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(mine));
    return mine != 0;
}
#endif

/// What lane `owner` holds, in all lanes. `dynamic` is left out.
__device__ __forceinline__ abi::Load broadcast(const abi::Load& load, U32 owner) {
    abi::Load copy{};
    copy.address = __shfl_sync(~0u, load.address, owner);
    copy.rows = __shfl_sync(~0u, load.rows, owner);
    copy.row_bytes = __shfl_sync(~0u, load.row_bytes, owner);
    copy.row_stride = __shfl_sync(~0u, load.row_stride, owner);
    copy.bytes = __shfl_sync(~0u, load.bytes, owner);
    return copy;
}

/// Starts the copies of one load into a slot. The whole loader warp takes part.
template <class Config>
__device__ __forceinline__ void fill_slot(U32 slot, const abi::Load& load) {
    const U32 to = shared_address(slot_memory<Config>(slot));
    const U32 full = control().full[slot].address();
    const auto target = [&](U32 row) { return to + abi::panel_row(row, load.row_bytes); };
    const auto source = [&](U32 row) { return load.address + static_cast<U64>(row) * load.row_stride; };
#if __CUDA_ARCH__ >= 900
    if (elected()) {
        asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(full),
                     "r"(load.bytes)
                     : "memory");
        // A weight is read once in an iteration: it must not push activations and caches out of the L2 cache.
        U64 once;
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
        const auto copy = [&](U32 row) {
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                "[%1], %2, "
                "[%3], %4;" ::"r"(target(row)),
                "l"(source(row)), "r"(load.row_bytes), "r"(full), "l"(once)
                : "memory");
        };
        if (load.rows == abi::kPanelRows) {
#pragma unroll
            for (U32 row = 0; row < abi::kPanelRows; ++row) copy(row);
        } else {
#pragma unroll 1
            for (U32 row = 0; row < load.rows; ++row) copy(row);
        }
    }
    __syncwarp();
#else
    for (U32 row = 0; row < load.rows; ++row) {
        for (U32 at = threadIdx.x % 32 * 16; at < load.row_bytes; at += 32 * 16) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target(row) + at),
                         "l"(source(row) + at)
                         : "memory");
        }
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(full) : "memory");
#endif
}

/// Spreads a worker's loads in time. One that asks as fast as it can takes more than its share of what the L2 cache
/// delivers; others then end a phase late, and all wait for them.
template <class Config>
class Pace {
public:
    /// Waits until the gap behind the last load is over; the next one is as long as a load of so many bytes asks for.
    __device__ __forceinline__ void keep(U32 bytes) {
        if constexpr (Config::kLoadGap > 0) {
            while (static_cast<U32>(clock()) - begin_ < gap_) {
            }
            begin_ = static_cast<U32>(clock());
            gap_ = bytes * Config::kLoadGap / 1024;
        }
    }

private:
    U32 begin_ = 0;  ///< clock cycles
    U32 gap_ = 0;
};

/// Has the launch ended before all of its iterations were run? For the loader, which nobody tells.
__device__ __forceinline__ bool ended_early() {
    const volatile U32* ended = control().ended;
    return (ended[0] | ended[1]) != 0;
}

/// Where a loader is in its worker's stream.
template <class Config>
struct LoaderState {
    Cursor cursor;
    Pace<Config> pace;
    U32 issued = 0;
    bool over = false;  ///< a wait was given up, or nobody consumes any more
};

/// Issues the loads of one iteration. Descriptors are read 32 at a time, one a lane, so that their latency is off the
/// stream's path.
template <class Config>
__device__ __forceinline__ void load_iteration(const abi::Launch& launch, const abi::WorkerRange& range,
                                               LoaderState<Config>& state) {
    const U32 lane = threadIdx.x % 32;
    const abi::Load* loads = launch.loads + range.first_load;
    auto& [cursor, pace, issued, over] = state;
    for (U32 base = 0; base < range.load_count && !over; base += 32) {
        abi::Load mine{};
        if (base + lane < range.load_count) {
            mine = loads[base + lane];
            if (mine.dynamic != abi::kNoDynamic) mine.address += launch.dynamic[mine.dynamic];
        }
        const U32 count = min(32u, range.load_count - base);
        for (U32 i = 0; i < count && !over; ++i) {
            const Mbarrier& empty = control().empty[cursor.slot];
            // A consumer's time-out names the cause, so the loader is the more patient one. A new barrier counts the
            // phase before its first as passed: the first round through the ring does not wait.
            Patience patience(launch, 2 * launch.timeout_ns);
            while (!empty.passed(cursor.parity ^ 1) && !over) {
                over = ended_early() || patience.over({~0u, abi::kRingEvent, cursor.parity, cursor.slot});
            }
            over = __any_sync(~0u, over);
            if (over) break;
            const abi::Load load = broadcast(mine, i);
            pace.keep(load.bytes);
            fill_slot<Config>(cursor.slot, load);
            stamp_issued(launch, range.first_load + base + i);
            cursor = cursor.template next<Config>();
            ++issued;
        }
    }
}

/// The loader warp: issues the worker's loads as slots become free; never waits for activations. It runs straight on
/// from one iteration to the next, since nothing in the stream changes within a launch.
template <class Config>
__device__ __forceinline__ void load_stream(const abi::Launch& launch, const abi::WorkerRange& range) {
    LoaderState<Config> state;
    for (U32 iteration = 0; iteration < launch.iterations && !state.over; ++iteration) {
        load_iteration<Config>(launch, range, state);
    }
    // Copies in flight that nobody consumes must land before the CTA's shared memory is given to another.
    if (!state.over && launch.stop == nullptr) return;
    Cursor cursor = state.cursor;
    for (U32 back = min(state.issued, static_cast<U32>(Config::kSlots)); back > 0; --back) {
        const bool wraps = cursor.slot == 0;
        cursor = {wraps ? Config::kSlots - 1 : cursor.slot - 1, wraps ? cursor.parity ^ 1 : cursor.parity};
        while (!control().full[cursor.slot].passed(cursor.parity)) {
        }
    }
}

}  // namespace stretto::device
