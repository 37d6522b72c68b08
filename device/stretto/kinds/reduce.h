#pragma once

#include "stretto/operands.h"
#include "stretto/tile/vector.h"

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

/// acc[v] combined with the terms of V neighbours from (kept, reduced) on: into one accumulator, or into one of each.
template <class F, int Count>
__device__ __forceinline__ void combine_terms(const F& f, I32 kept, I32 reduced,
                                              typename F::Acc (&acc)[Count]) {
    const typename F::Combine combine;
    if constexpr (F::kVector > 1) {
        typename F::Acc values[F::kVector];
        f.terms(kept, reduced, values);
#pragma unroll
        for (int v = 0; v < F::kVector; ++v) acc[v % Count] = combine(acc[v % Count], values[v]);
    } else {
        acc[0] = combine(acc[0], f.term(kept, reduced));
    }
}

/// One warp per kept position: lane l reduces groups of kVector neighbouring terms, group l, l + 32, …, then the lanes meet in
/// a butterfly.
/// F: Acc, Combine, kReduced (number of terms), kVector, term(kept, reduced) or, where kVector is more than 1,
/// terms(kept, reduced, values), and store(kept, acc). Where the last group is not whole, both.
template <class F>
struct Reduce {
    static constexpr int kUnrolled = F::kVector > 1 ? 4 : 8;
    static constexpr I32 kWhole = F::kReduced - F::kReduced % F::kVector;  ///< terms of whole groups

    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        using Acc = typename F::Acc;
        const F f{Operands(record, launch)};
        const I32 lane = threadIdx.x % 32;
        const I32 end = record.tile[0].end;
        for (I32 kept = record.tile[0].begin + static_cast<I32>(threadIdx.x / 32); kept < end;
             kept += Config::kWarps) {
            Acc acc[1] = {F::Combine::template start<Acc>()};
#pragma unroll kUnrolled
            for (I32 reduced = lane * F::kVector; reduced < kWhole; reduced += 32 * F::kVector) {
                combine_terms(f, kept, reduced, acc);
            }
            if constexpr (kWhole < F::kReduced) {
                if (lane == kWhole / F::kVector % 32) {
                    for (I32 reduced = kWhole; reduced < F::kReduced; ++reduced)
                        acc[0] = typename F::Combine{}(acc[0], f.term(kept, reduced));
                }
            }
            acc[0] = butterfly(acc[0], typename F::Combine{});
            if (lane == 0) f.store(kept, acc[0]);
        }
        return cursor;
    }
};

/// For terms whose neighbours in memory belong to neighbouring kept positions: abi::kReduceColumns positions at a time. Each
/// lane has kVector of them and the terms of one share, share s the terms s, s + shares, …; shares are combined in order.
/// F: as for Reduce, with kVector neighbouring kept positions.
template <class F>
struct ReduceColumns {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        using Acc = typename F::Acc;
        constexpr I32 kColumns = abi::kReduceColumns;
        constexpr I32 kLanes = kColumns / F::kVector;  // that have the positions of one share
        constexpr I32 kShares = Config::kWarps * F::kVector;
        const F f{Operands(record, launch)};
        const typename F::Combine combine;
        Acc* partial = reinterpret_cast<Acc*>(scratch<Config>());
        const I32 share = static_cast<I32>(threadIdx.x) / kLanes;
        const I32 column = static_cast<I32>(threadIdx.x) % kLanes * F::kVector;
        const I32 end = record.tile[0].end;
        for (I32 first = record.tile[0].begin; first < end; first += kColumns) {
            Acc acc[F::kVector];
#pragma unroll
            for (int v = 0; v < F::kVector; ++v) acc[v] = F::Combine::template start<Acc>();
            if (first + column < end) {
#pragma unroll 4
                for (I32 reduced = share; reduced < F::kReduced; reduced += kShares) {
                    combine_terms(f, first + column, reduced, acc);
                }
            }
#pragma unroll
            for (int v = 0; v < F::kVector; ++v) partial[share * kColumns + column + v] = acc[v];
            consumer_barrier<Config>();
            const I32 kept = first + static_cast<I32>(threadIdx.x);
            if (threadIdx.x < kColumns && kept < end) {
                Acc total = partial[threadIdx.x];
                for (I32 s = 1; s < kShares; ++s) {
                    total = combine(total, partial[s * kColumns + static_cast<I32>(threadIdx.x)]);
                }
                f.store(kept, total);
            }
            consumer_barrier<Config>();
        }
        return cursor;
    }
};

/// One lane per kept position, or per group of kVector neighbours for which the same terms count. Of a position's terms, counted
/// from the first that counts, sum s takes s, s + kSums, …; the sums then meet in a butterfly. Neighbouring lanes read
/// neighbouring elements where an outer dimension is reduced.
/// F: as for Reduce, and begin(kept) and end(kept), the terms that count, read on the device if kRagged. Where kVector is more
/// than 1, tasks have whole groups, terms(kept, reduced, values) gives a term of each neighbour, and load_vector, uniform and
/// store_vector, as for Map, take all kVector results.
template <class F>
struct ReduceAcross {
    static constexpr int kSums = 4;

    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        constexpr I32 kStep = Config::kThreads * F::kVector;
        const F f{Operands(record, launch)};
        const auto uniform = uniform_of(f);
        const I32 end = record.tile[0].end;
        for (I32 kept = record.tile[0].begin + thread_here() * F::kVector; kept < end;
             kept += kAhead * kStep) {
            I32 first[kAhead]{}, last[kAhead]{};  // written on every path (operands.h)
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                if (i > 0 && kept + i * kStep >= end) break;
                first[i] = f.begin(kept + i * kStep);
                last[i] = f.end(kept + i * kStep);
            }
#pragma unroll 1
            for (int i = 0; i < kAhead; ++i) {  // one copy of the sums' code
                if (i > 0 && kept + i * kStep >= end) break;
                sum_up(f, kept + i * kStep, first[0], last[0], uniform);
#pragma unroll
                for (int j = 0; j + 1 < kAhead; ++j) {
                    first[j] = first[j + 1];
                    last[j] = last[j + 1];
                }
            }
        }
        return cursor;
    }

private:
    /// Groups whose bounds are on their way together: many have few terms or none, and then a lane waits for little else.
    static constexpr int kAhead = F::kRagged ? 4 : 1;
    static constexpr int kUnrolled = F::kVector < 4 ? 4 / F::kVector : 1;

    static __device__ __forceinline__ auto uniform_of(const F& f) {
        if constexpr (F::kVector > 1) {
            return f.uniform();
        } else {
            return nullptr;
        }
    }

    template <class Uniform>
    static __device__ __forceinline__ void sum_up(const F& f, I32 kept, I32 reduced, I32 last,
                                                  const Uniform& uniform) {
        using Acc = typename F::Acc;
        const typename F::Combine combine;
        Acc acc[kSums][F::kVector];
#pragma unroll
        for (auto& sum : acc) {
#pragma unroll
            for (Acc& one : sum) one = F::Combine::template start<Acc>();
        }
#pragma unroll kUnrolled
        for (; reduced + kSums <= last; reduced += kSums) {
#pragma unroll
            for (int s = 0; s < kSums; ++s) combine_terms(f, kept, reduced + s, acc[s]);
        }
#pragma unroll
        for (int s = 0; s < kSums; ++s) {
            if (reduced + s < last) combine_terms(f, kept, reduced + s, acc[s]);
        }
        Acc results[F::kVector];
#pragma unroll
        for (int v = 0; v < F::kVector; ++v)
            results[v] = combine(combine(acc[0][v], acc[2][v]), combine(acc[1][v], acc[3][v]));
        if constexpr (F::kVector > 1) {
            f.store_vector(kept, results, f.load_vector(kept), uniform);
        } else {
            f.store(kept, results[0]);
        }
    }
};

}  // namespace stretto::device
