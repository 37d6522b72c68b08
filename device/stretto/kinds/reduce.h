#pragma once

#include "stretto/kinds/combine.h"
#include "stretto/operands.h"

namespace stretto::device {

/// One warp per kept position: lane l reduces groups of kVector neighbouring terms, group l, l + 32, …, then the lanes meet in
/// a butterfly.
/// F: Acc, Passes (a PassList), kReduced (number of terms), kVector, store(kept, results), and for each pass P terms(Number<P>,
/// Number<V>, kept, reduced, results, values), the terms of V neighbours, value j * V + v of its reduction j, with the results
/// of earlier passes; V is kVector, and also 1 where the last group is not whole.
template <class F>
struct Reduce {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 lane = threadIdx.x % 32;
        const I32 end = record.tile[0].end;
        for (I32 kept = record.tile[0].begin + static_cast<I32>(threadIdx.x / 32); kept < end;
             kept += Config::kWarps) {
            typename F::Acc results[F::Passes::kResults];
            for_each_number<0, F::Passes::kPasses>([&]<int P>(Number<P>) {
                using Sums = Combined<F, P, 1>;
                Sums sums;
                sums.template take_share<32>(f, kept, lane, results);
                Sums::for_each([&]<class Combine, int J>(Combine combine, Number<J>) {
                    results[Sums::kFirst + J] = butterfly(sums.acc[J][0], combine);
                });
            });
            if (lane == 0) f.store(kept, results);
            store_elements<32>(f, kept, lane, results);
        }
        return cursor;
    }
};

/// All warps per kept position: of groups of kVector neighbouring terms, lane l of all lanes reduces group l, l + lanes, …; the
/// lanes of a warp meet in a butterfly, then the warps in order.
/// F: as for Reduce, and RowShare.
template <class F>
struct ReduceTogether {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        using Acc = typename F::Acc;
        const F f{Operands(record, launch)};
        Acc* totals = reinterpret_cast<Acc*>(scratch<Config>());  // of the warps
        const I32 thread = thread_here();
        const I32 end = record.tile[0].end;
        for (I32 kept = record.tile[0].begin; kept < end; ++kept) {
            const RowShare<F, Config::kThreads> row(f, kept, thread);
            Acc results[F::Passes::kResults];
            for_each_number<0, F::Passes::kPasses>([&]<int P>(Number<P>) {
                using Sums = Combined<F, P, 1>;
                Sums sums;
                row.take(sums, f, kept, thread, results);
                Sums::for_each([&]<class Combine, int J>(Combine combine, Number<J>) {
                    const Acc total = butterfly(sums.acc[J][0], combine);
                    if (thread % 32 == 0) totals[(Sums::kFirst + J) * Config::kWarps + thread / 32] = total;
                });
                consumer_barrier<Config>();
                Sums::for_each([&]<class Combine, int J>(Combine combine, Number<J>) {
                    const Acc* of_warp = totals + (Sums::kFirst + J) * Config::kWarps;
                    Acc& result = results[Sums::kFirst + J];
                    result = of_warp[0];
#pragma unroll
                    for (int w = 1; w < Config::kWarps; ++w) result = combine(result, of_warp[w]);
                });
            });
            if (thread == 0) f.store(kept, results);
            store_elements<Config::kThreads>(f, kept, thread, results);
            consumer_barrier<Config>();  // before the next row's totals
        }
        return cursor;
    }
};

/// One lane per kept position, of few terms, which it takes in order in groups of kVector neighbours, all on their way together.
/// F: as for Reduce.
template <class F>
struct ReduceAlone {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 end = record.tile[0].end;
        for (I32 kept = record.tile[0].begin + thread_here(); kept < end; kept += Config::kThreads) {
            typename F::Acc results[F::Passes::kResults];
            for_each_number<0, F::Passes::kPasses>([&]<int P>(Number<P>) {
                using Sums = Combined<F, P, 1>;
                Sums sums;
                sums.template take_share<1>(f, kept, 0, results);
                Sums::for_each([&]<class Combine, int J>(Combine, Number<J>) {
                    results[Sums::kFirst + J] = sums.acc[J][0];
                });
            });
            f.store(kept, results);
        }
        return cursor;
    }
};

/// For terms whose neighbours in memory belong to neighbouring kept positions: abi::kReduceColumns positions at a time. Each
/// lane has kVector of them and the terms of one share, share s the terms s, s + shares, …; shares are combined in order.
/// F: as for Reduce, with kVector neighbouring kept positions, and one pass.
template <class F>
struct ReduceColumns {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        using Acc = typename F::Acc;
        using Sums = Combined<F, 0, F::kVector>;
        constexpr I32 kColumns = abi::kReduceColumns;
        constexpr I32 kLanes = kColumns / F::kVector;  // that have the positions of one share
        constexpr I32 kShares = Config::kWarps * F::kVector;
        constexpr I32 kRounds = F::kReduced / kShares;  // in which all shares have a term
        constexpr int kUnrolled = unrolled(kRounds);
        const F f{Operands(record, launch)};
        Acc* partial = reinterpret_cast<Acc*>(scratch<Config>());
        const I32 share = static_cast<I32>(threadIdx.x) / kLanes;
        const I32 column = static_cast<I32>(threadIdx.x) % kLanes * F::kVector;
        const I32 end = record.tile[0].end;
        for (I32 first = record.tile[0].begin; first < end; first += kColumns) {
            Sums sums;
            if (first + column < end) {
#pragma unroll kUnrolled
                for (I32 round = 0; round < kRounds; ++round)
                    sums.template take<F::kVector>(f, first + column, round * kShares + share, nullptr);
                if (share < F::kReduced - kRounds * kShares)
                    sums.template take<F::kVector>(f, first + column, kRounds * kShares + share, nullptr);
            }
            const I32 kept = first + static_cast<I32>(threadIdx.x);
            const bool stores = threadIdx.x < kColumns && kept < end;
            Acc results[F::Passes::kResults];
            Sums::for_each([&]<class Combine, int J>(Combine combine, Number<J>) {
#pragma unroll
                for (int v = 0; v < F::kVector; ++v) {
                    partial[share * kColumns + column + v] = sums.acc[J][v];
                }
                consumer_barrier<Config>();
                results[J] = Combine::template start<Acc>();
                if (stores) {
                    results[J] = partial[threadIdx.x];
                    for (I32 s = 1; s < kShares; ++s) {
                        results[J] =
                            combine(results[J], partial[s * kColumns + static_cast<I32>(threadIdx.x)]);
                    }
                }
                if constexpr (J + 1 < F::Passes::kResults) consumer_barrier<Config>();
            });
            if (stores) f.store(kept, results);
            consumer_barrier<Config>();
        }
        return cursor;
    }
};

/// One lane per kept position, or per group of kVector neighbours for which the same terms count. Of a position's terms, counted
/// from the first that counts, sum s takes s, s + kSums, …; the sums then meet in a butterfly. Neighbouring lanes read
/// neighbouring elements where an outer dimension is reduced.
/// F: as for Reduce, with kVector neighbouring kept positions, of whose result j neighbour v is results[j * kVector + v]; and
/// begin(kept) and end(kept), the terms that count, read on the device if kRagged. Where kVector is more than 1, tasks have
/// whole groups, and load_vector, uniform and store_vector, as for Map, take all results.
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
        const I32 begin = record.tile[0].begin + thread_here() * F::kVector;
        if constexpr (kFew) {
            take_few<kStep>(f, begin, end, uniform);
        } else {
            take_any<kStep>(f, begin, end, uniform);
        }
        return cursor;
    }

private:
    /// Groups whose bounds are on their way together: many have few terms or none, and then a lane waits for little else.
    static constexpr int kAhead = F::kRagged ? 4 : 1;
    static constexpr int kUnrolled = F::kVector < 4 ? 4 / F::kVector : 1;
    /// Of many results with as few terms as this, a lane waits for memory only: several groups are on their way together.
    static constexpr bool kFew = F::kVector > 1 && !F::kRagged && F::kReduced <= kSums;

    /// Of one group; of no terms to begin with.
    struct Results {
        typename F::Acc values[F::Passes::kResults * F::kVector];

        __device__ __forceinline__ Results() {
            for_each_number<0, F::Passes::kPasses>([&]<int P>(Number<P>) {
                using Sums = Combined<F, P, 1>;
                Sums::for_each([&]<class Combine, int J>(Combine, Number<J>) {
#pragma unroll
                    for (int v = 0; v < F::kVector; ++v)
                        values[(Sums::kFirst + J) * F::kVector + v] =
                            Combine::template start<typename F::Acc>();
                });
            });
        }
    };

    static __device__ __forceinline__ auto uniform_of(const F& f) {
        if constexpr (F::kVector > 1) {
            return f.uniform();
        } else {
            return nullptr;
        }
    }

    template <I32 Step, class Uniform>
    static __device__ __forceinline__ void take_any(const F& f, I32 begin, I32 end, const Uniform& uniform) {
        for (I32 kept = begin; kept < end; kept += kAhead * Step) {
            I32 first[kAhead], last[kAhead];
            bool any = false;
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                // No branch stands between the loads: they would wait for each other there.
                const I32 at = min(kept + i * Step, end - F::kVector);
                first[i] = f.begin(at);
                last[i] = f.end(at);
                any |= first[i] < last[i];
            }
            if (F::kRagged && !any) {  // so it is for most of a large table
#pragma unroll
                for (int i = 0; i < kAhead; ++i) {
                    if (kept + i * Step < end) store(f, kept + i * Step, Results(), uniform);
                }
                continue;
            }
#pragma unroll 1
            for (int i = 0; i < kAhead; ++i) {  // one copy of the sums' code
                if (i > 0 && kept + i * Step >= end) break;
                Results all;
                sum_up(f, kept + i * Step, first[0], last[0], all);
                store(f, kept + i * Step, all, uniform);
#pragma unroll
                for (int j = 0; j + 1 < kAhead; ++j) {
                    first[j] = first[j + 1];
                    last[j] = last[j + 1];
                }
            }
        }
    }

    template <I32 Step, class Uniform>
    static __device__ __forceinline__ void take_few(const F& f, I32 begin, I32 end, const Uniform& uniform) {
        constexpr int kTogether = 4;
        for (I32 kept = begin; kept < end; kept += kTogether * Step) {
            Results all[kTogether];
            typename F::EarlyVector early[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const I32 at = min(kept + i * Step, end - F::kVector);  // no branch, as for bounds
                early[i] = f.load_vector(at);
                sum_up(f, at, 0, F::kReduced, all[i]);
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                if (kept + i * Step < end) f.store_vector(kept + i * Step, all[i].values, early[i], uniform);
            }
        }
    }

    static __device__ __forceinline__ void sum_up(const F& f, I32 kept, I32 begin, I32 last, Results& all) {
        constexpr int kVector = F::kVector;
        auto& results = all.values;
        for_each_number<0, F::Passes::kPasses>([&]<int P>(Number<P>) {
            using Sums = Combined<F, P, kSums * kVector>;
            Sums sums;
            I32 reduced = begin;
#pragma unroll kUnrolled
            for (; reduced + kSums <= last; reduced += kSums) {
#pragma unroll
                for (int s = 0; s < kSums; ++s)
                    sums.template take<kVector>(f, kept, reduced + s, results, s * kVector);
            }
#pragma unroll
            for (int s = 0; s < kSums; ++s) {
                if (reduced + s < last)
                    sums.template take<kVector>(f, kept, reduced + s, results, s * kVector);
            }
            Sums::for_each([&]<class Combine, int J>(Combine combine, Number<J>) {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    const auto& acc = sums.acc[J];
                    results[(Sums::kFirst + J) * kVector + v] =
                        combine(combine(acc[v], acc[2 * kVector + v]),
                                combine(acc[kVector + v], acc[3 * kVector + v]));
                }
            });
        });
    }

    template <class Uniform>
    static __device__ __forceinline__ void store(const F& f, I32 kept, const Results& results,
                                                 const Uniform& uniform) {
        if constexpr (F::kVector > 1) {
            f.store_vector(kept, results.values, f.load_vector(kept), uniform);
        } else {
            f.store(kept, results.values);
        }
    }
};

}  // namespace stretto::device
