#pragma once

#include "stretto/stream/ring.h"

/// The barrier between two iterations of one launch. It orders all that the workers did in one iteration before all
/// that they do in the next, whatever the plan says about it: memory may be used again, and state is in place.
namespace stretto::device {

__device__ __forceinline__ U64 load_acquire(const U64* at) {
    U64 value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

/// To the host: what the calling thread has seen of the other workers' writes goes before `value`.
__device__ __forceinline__ void store_release_system(U32* at, U32 value) {
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

/// From the host: what it wrote before the value that is read goes before all that the calling thread does next.
__device__ __forceinline__ U32 load_acquire_system(const U32* at) {
    U32 value;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

/// Ends iteration number `iteration` of the launch on this worker: tells the others, and waits for them if another
/// iteration can follow. One thread calls it, after a consumer barrier behind the worker's last task. True: no iteration
/// follows, or the wait was given up.
///
/// Each worker adds to `finished` with release after its last write, and reads it with acquire before its next one, so
/// the additions of all workers order the two (PTX ISA, "Memory Consistency Model", causality order). Whether the launch
/// stops early is one worker's word, in a slot that is written again only two meetings later, when all have read it.
__device__ __forceinline__ bool end_iteration(const abi::Launch& launch, U32 iteration) {
    abi::Meeting& meeting = *launch.meeting;
    const U32 epoch = control().epoch + iteration;
    volatile U32* stop = &meeting.stop[epoch % 2];
    const bool stops = launch.stop != nullptr || launch.granted != nullptr;
    if (stops && blockIdx.x == launch.stop_worker) {
        const bool set =
            launch.stop != nullptr && *static_cast<const volatile unsigned char*>(launch.stop) != 0;
        const bool spent = launch.granted != nullptr && load_acquire_system(launch.granted) <= iteration + 1;
        *stop = set || spent ? 1 : 0;
    }
    add_release(&meeting.finished, 1);
    const bool last = iteration + 1 == launch.iterations;
    const bool tells = launch.progress != nullptr && blockIdx.x == 0;
    if (last && !tells) return true;
    // The epoch wraps where the count does not: only their lower halves are comparable.
    const U32 wanted = (epoch + 1) * gridDim.x;
    Patience patience(launch, launch.timeout_ns);
    while (true) {
        const U32 seen = static_cast<U32>(load_acquire(&meeting.finished));
        if (static_cast<I32>(seen - wanted) >= 0) break;
        if (patience.over({~0u, abi::kIterationEvent, seen, wanted})) return true;
    }
    const bool ended = last || (stops && *stop != 0);
    if (tells) store_release_system(launch.progress, (iteration + 1) | (ended ? abi::kEnded : 0));
    return ended;
}

}  // namespace stretto::device
