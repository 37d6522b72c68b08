#pragma once

#include "stretto/kinds/attention.h"
#include "stretto/kinds/attention_mma.h"
#include "stretto/kinds/attention_tied.h"
#include "stretto/kinds/map.h"
#include "stretto/kinds/matmul.h"
#include "stretto/kinds/matmul_direct.h"
#include "stretto/kinds/matmul_panels.h"
#include "stretto/kinds/matmul_tiles.h"
#include "stretto/kinds/matmul_wide.h"
#include "stretto/kinds/reduce.h"
#include "stretto/kinds/scored.h"
#include "stretto/sync/meeting.h"

/// The persistent kernel: one CTA is one worker and walks its records; its last warp is the loader.
namespace stretto::device {

/// Shape of the kernel, fixed when the program is compiled.
template <int Warps, int Slots, int SlotBytes, int LoadGap>
struct KernelConfig {
    static constexpr int kWarps = Warps;         ///< consumer warps
    static constexpr int kThreads = Warps * 32;  ///< consumer threads
    static constexpr bool kStreams =
        SlotBytes > 0;  ///< without, there is no loader: its warp would cost registers
    static constexpr int kAllThreads = kThreads + (kStreams ? 32 : 0);
    static constexpr int kSlots = Slots;
    static constexpr int kSlotBytes = SlotBytes;
    static constexpr int kLoadGap = LoadGap;  ///< clock cycles from one load to the next, for each KiB
};

/// The task kinds of a program, by kind number.
template <class... Kinds>
struct KindList {};

/// A kind as a function of its own: it takes the registers that it needs while it runs, and none from other kinds.
template <class Kind, class Config>
__device__ __noinline__ Cursor run_apart(const abi::Record& record, const abi::Launch& launch,
                                         Cursor cursor) {
    return Kind::template run<Config>(record, launch, cursor);
}

/// More kinds than this are functions of their own: a call costs less than what so many together do to each other.
inline constexpr int kMostTogether = 24;

/// Kinds that start instructions and go on beside them stay in the kernel: at the edge of a function the compiler waits for
/// each of them (ptxas, C7510).
template <class Kind, class Config>
inline constexpr bool kRunsAhead = false;
template <class F, class Config>
inline constexpr bool kRunsAhead<MatMulTiles<F>, Config> = MatMulTiles<F>::template kRunsAhead<Config>;
template <class F, class Config>
inline constexpr bool kRunsAhead<Scored<F>, Config> = Scored<F>::template kRunsAhead<Config>;

/// Runs the record's kind, which is not before the kind `Number`, the first of those that are left.
template <class Config, bool Apart, U32 Number, class Kind, class... Rest>
__device__ __forceinline__ Cursor dispatch_from(U32 kind, const abi::Record& record,
                                                const abi::Launch& launch, Cursor cursor) {
    if (kind == Number) {
        if constexpr (Apart && !kRunsAhead<Kind, Config>) {
            return run_apart<Kind, Config>(record, launch_parameter(), cursor);
        } else {
            return Kind::template run<Config>(record, launch, cursor);
        }
    }
    if constexpr (sizeof...(Rest) > 0) {
        return dispatch_from<Config, Apart, Number + 1, Rest...>(kind, record, launch, cursor);
    }
    return cursor;
}

template <class Config, class... Kinds>
__device__ __forceinline__ Cursor dispatch(KindList<Kinds...>, const abi::Record& record,
                                           const abi::Launch& launch, Cursor cursor) {
#ifdef STRETTO_KINDS_APART
    constexpr bool kApart = true;
#else
    constexpr bool kApart = sizeof...(Kinds) > kMostTogether;
#endif
    if constexpr (sizeof...(Kinds) > 0) {
        return dispatch_from<Config, kApart, 0, Kinds...>(record.kind, record, launch, cursor);
    }
    return cursor;
}

/// Fetches a worker's next record while the current task runs. One warp does it.
class RecordFetch {
public:
    __device__ __forceinline__ RecordFetch(const abi::Launch& launch, const abi::Record* first)
        : launch_(launch), first_(first) {}

    __device__ __forceinline__ void start(U32 number, U32 place) const {
        const U32 lane = threadIdx.x % 32;
        if (lane < sizeof(abi::Record) / 16) {
            const char* from = reinterpret_cast<const char*>(first_ + number) + lane * 16;
            const U32 to = shared_address(&control().records[place]) + lane * 16;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
        }
    }
    /// Completes `start`; the consumers' next barrier shows the record to everybody.
    __device__ __forceinline__ void finish(U32 place) const {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncwarp();
        const U32 lane = threadIdx.x % 32;
        if (lane < abi::kMaxOperands) {
            U64& operand = control().records[place].operands[lane];
            if (operand != abi::kNoOperand && (operand & abi::kDynamicTag) != 0) {
                operand = launch_.dynamic[operand & ~abi::kDynamicTag];
            }
        }
    }

private:
    const abi::Launch& launch_;
    const abi::Record* first_;
};

template <class Kinds, class Config>
__device__ __forceinline__ void consume(const abi::Launch& launch, const abi::WorkerRange& range) {
    Control& shared = control();
    const U32 warp = threadIdx.x / 32;
    // One warp polls while another still releases the previous task's results.
    constexpr U32 kPoller = 0;
    constexpr U32 kHelper = Config::kWarps > 1 ? 1 : 0;
    const RecordFetch fetch(launch, launch.records + range.first_record);
    U32 place = 0;
    Cursor cursor;
    for (U32 iteration = 0; iteration < launch.iterations; ++iteration) {
        const U32 epoch = shared.epoch + iteration;
        const bool repeats = iteration + 1 < launch.iterations;
        for (U32 i = 0; i < range.record_count; ++i, place ^= 1) {
            const abi::Record& record = shared.records[place];
            const U32 task = record.task;
            const bool last = i + 1 == range.record_count;
            const bool more = !last || repeats;
            stamp<Config>(launch, task, &abi::TaskStamps::begun);
            if (warp == kHelper && more) fetch.start(last ? 0 : i + 1, place ^ 1);
            if (record.wait_count > 0) {
                if (warp == kPoller && !wait_for_events(record, launch, epoch))
                    shared.events_given_up[place] = 1;
                consumer_barrier<Config>();
                if (shared.events_given_up[place] != 0) return;
            }
            stamp<Config>(launch, task, &abi::TaskStamps::ready);
            cursor = dispatch<Config>(Kinds{}, record, launch, cursor);
            if (warp == kHelper && more) fetch.finish(place ^ 1);
            consumer_barrier<Config>();
            if (shared.loads_given_up[place] != 0) return;
            stamp<Config>(launch, task, &abi::TaskStamps::computed);
            if (warp == kHelper) {
                signal_events(record, launch);
                stamp_published(launch, task);
                __syncwarp();  // the record's place is filled again only after all lanes have read it
            }
        }
        if (threadIdx.x == 0) {
            if (end_iteration(launch, iteration)) shared.ended[epoch % 2] = 1;
            shared.tag = epoch + 2;
        }
        if (!repeats) return;
        __syncwarp();
        consumer_barrier<Config>();
        if (shared.ended[epoch % 2] != 0) return;
    }
}

/// One thread reads the number of earlier iterations. Others may have finished this launch's first one already, but not
/// all: this worker has not.
__device__ __forceinline__ void read_epoch(const abi::Launch& launch) {
    const U64 finished = *static_cast<volatile U64*>(&launch.meeting->finished);
    control().epoch = static_cast<U32>(finished / (gridDim.x * launch.kernels));
    control().tag = control().epoch + 1;
}

template <class Kinds, class Config>
__device__ __forceinline__ void run(const abi::Launch& launch) {
    Control& shared = control();
    const abi::WorkerRange range = launch.workers[blockIdx.x];
    if (threadIdx.x == Config::kAllThreads - 32) {
        init_ring<Config>();
        for (int place = 0; place < 2; ++place) {
            shared.events_given_up[place] = 0;
            shared.loads_given_up[place] = 0;
            shared.ended[place] = 0;
        }
        read_epoch(launch);
    }
    if (threadIdx.x < 32 && range.record_count > 0) {
        const RecordFetch fetch(launch, launch.records + range.first_record);
        fetch.start(0, 0);
        fetch.finish(0);
    }
    stamp_clocks<Config>(launch, &abi::WorkerStamps::begin);
    __syncthreads();
    if (threadIdx.x >= Config::kThreads) {
        if constexpr (Config::kStreams) load_stream<Config>(launch, range);
    } else {
        if (wait_for_kernel_before()) {
            // The kernel before may have been one of the launch before when the epoch was read.
            if (threadIdx.x == 0) read_epoch(launch);
            consumer_barrier<Config>();
        }
        consume<Kinds, Config>(launch, range);
        stamp_clocks<Config>(launch, &abi::WorkerStamps::end);
    }
}

}  // namespace stretto::device
