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

/// One lane per kept position. Of the position's terms, counted from the first that counts, sum s takes s, s + kSums, …;
/// the sums then meet in a butterfly. Neighbouring lanes read neighbouring elements where an outer dimension is reduced.
/// F: as for Reduce, and begin(kept) and end(kept), the terms that count.
template <class F>
struct ReduceAcross {
    static constexpr int kSums = 4;

    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        using Acc = typename F::Acc;
        const F f{Operands(record, launch)};
        const typename F::Combine combine;
        const I32 end = record.tile[0].end;
        for (I32 kept = record.tile[0].begin + static_cast<I32>(threadIdx.x); kept < end;
             kept += Config::kThreads) {
            Acc acc[kSums];
#pragma unroll
            for (Acc& sum : acc) sum = F::Combine::template start<Acc>();
            const I32 last = f.end(kept);
            I32 reduced = f.begin(kept);
#pragma unroll 4
            for (; reduced + kSums <= last; reduced += kSums) {
#pragma unroll
                for (int s = 0; s < kSums; ++s) acc[s] = combine(acc[s], f.term(kept, reduced + s));
            }
#pragma unroll
            for (int s = 0; s < kSums; ++s) {
                if (reduced + s < last) acc[s] = combine(acc[s], f.term(kept, reduced + s));
            }
            f.store(kept, combine(combine(acc[0], acc[2]), combine(acc[1], acc[3])));
        }
        return cursor;
    }
};

}  // namespace stretto::device
