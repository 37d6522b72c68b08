#pragma once

#include "stretto/operands.h"

namespace stretto::device {

// How a reduction combines. `T` is the accumulator's type.
struct SumOf {
    template <class T>
    static __device__ __forceinline__ T start() {
        return 0;
    }
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a + b;
    }
};
struct MaxOf {
    template <class T>
    static __device__ __forceinline__ T start() {
        return lowest<T>();
    }
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return maximum(a, b);
    }
};
struct MinOf {
    template <class T>
    static __device__ __forceinline__ T start() {
        return infinity<T>();
    }
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return minimum(a, b);
    }
};

/// One warp per kept position: lane l reduces terms l, l + 32, …, then the lanes meet in a butterfly.
/// F: Acc, Combine, kReduced (number of terms), term(kept, reduced), store(kept, acc).
template <class F>
struct Reduce {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        using Acc = typename F::Acc;
        const F f{Operands(record, launch)};
        const typename F::Combine combine;
        const I32 lane = threadIdx.x % 32;
        const I32 end = record.tile[0].end;
        for (I32 kept = record.tile[0].begin + static_cast<I32>(threadIdx.x / 32); kept < end;
             kept += Config::kWarps) {
            Acc acc = F::Combine::template start<Acc>();
#pragma unroll 4
            for (I32 reduced = lane; reduced < F::kReduced; reduced += 32) {
                acc = combine(acc, f.term(kept, reduced));
            }
            acc = butterfly(acc, combine);
            if (lane == 0) f.store(kept, acc);
        }
        return cursor;
    }
};

}  // namespace stretto::device
