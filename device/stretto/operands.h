#pragma once

#include "stretto/math.h"
#include "stretto/stream/ring.h"
#include "stretto/sync/words.h"

namespace stretto::device {

// Registers: all kinds share one kernel and its loop over records. What a kind may leave unwritten on some path, and reads
// behind it, is to the compiler a value from before that loop: it takes a register in every other kind, too. So what is
// loaded under a condition starts as zero.

/// threadIdx.x as a number with which differences are right.
[[nodiscard]] __device__ __forceinline__ I32 thread_here() {
    const I32 thread = static_cast<I32>(threadIdx.x);
    __builtin_assume(thread >= 0 && thread < 1024);
    return thread;
}

/// The kernel's parameter by its generic address (PTX ISA, cvta.param): a reference that leaves the kernel's own code would
/// make every thread copy it to memory first.
__device__ __forceinline__ const abi::Launch& launch_parameter() {
    U64 address;
    asm("cvta.param.u64 %0, stretto_program_param_0;" : "=l"(address));
    return *reinterpret_cast<const abi::Launch*>(address);
}

/// What the expressions of one task work on: its buffers, and the words among them. The addresses are global memory:
/// saying so spares the generic address checks.
class Operands {
public:
    __device__ __forceinline__ Operands(const abi::Record& record, const abi::Launch& launch)
        : record_(record), launch_(launch) {}

    template <class T>
    [[nodiscard]] __device__ __forceinline__ T* at(int slot) const {
        T* pointer = reinterpret_cast<T*>(record_.operands[slot]);
        __builtin_assume(__isGlobal(pointer));
        return pointer;
    }

    [[nodiscard]] __device__ __forceinline__ Words words() const {
        Control& shared = control();
        return {launch_, record_, shared.tag, shared.loads_given_up[&record_ - shared.records]};
    }

private:
    const abi::Record& record_;
    const abi::Launch& launch_;
};

}  // namespace stretto::device
