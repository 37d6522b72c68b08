#pragma once

#include "stretto/types.h"

/// Barriers inside one worker.
namespace stretto::device {

/// Barrier over the consumer warps only; the loader warp never takes part. Id 0 is __syncthreads.
template <class Config>
__device__ __forceinline__ void consumer_barrier() {
    asm volatile("bar.sync 1, %0;" ::"n"(Config::kThreads) : "memory");
}

/// Where a program's phases are kernels of their own: lets the next kernel start to load its weights, and waits until
/// what the kernel before wrote can be read (PTX ISA, griddepcontrol). False: there is nothing to wait for.
__device__ __forceinline__ bool wait_for_kernel_before() {
#if defined(STRETTO_SEPARATE_KERNELS) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    return true;
#else
    return false;
#endif
}

__device__ __forceinline__ U32 shared_address(const void* pointer) {
    return static_cast<U32>(__cvta_generic_to_shared(pointer));
}

/// A barrier in shared memory whose phases alternate parity.
class Mbarrier {
public:
    __device__ __forceinline__ void init(U32 arrivals) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&state_)), "r"(arrivals)
                     : "memory");
    }
    __device__ __forceinline__ void arrive() {
        asm volatile(
            "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(&state_))
            : "memory");
    }
    /// Is the phase of this parity complete? May suspend the thread for a while first where the chip can.
    [[nodiscard]] __device__ __forceinline__ bool passed(U32 parity) const {
        U32 done;
#if __CUDA_ARCH__ >= 900
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(shared_address(&state_)), "r"(parity)
            : "memory");
#else
        asm volatile(
            "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(shared_address(&state_)), "r"(parity)
            : "memory");
#endif
        return done != 0;
    }
    [[nodiscard]] __device__ __forceinline__ U32 address() const { return shared_address(&state_); }

private:
    U64 state_;
};

}  // namespace stretto::device
