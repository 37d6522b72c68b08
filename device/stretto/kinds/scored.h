#pragma once

#include "stretto/kinds/scored_positions.h"
#include "stretto/kinds/scored_sums.h"
#include "stretto/tile/vector.h"

namespace stretto::device {

/// Sums over context positions whose weights come from scores, which live in registers only (Dao et al., FlashAttention-2,
/// 2023). A warp has 16 rows; the warps that share them take turns with blocks of positions, and their sums are added in
/// order.
/// F: kRows (of a task), kScores, kSums, kDepth, kColumns (of the factors, 0 where there is none), kContext, kStages,
/// kBandBegin, kBandEnd, kSoftmax, Element, Combine, kVector; of each operand whether its rows are neighbours (bit j of
/// kLeftColumns and kRightColumns for score j, bit s of kFactorColumns for sum s) and how many elements always lie together
/// (kLeftGrain, kRightGrain, kFactorGrain), and the address of an element: left_at(Number<j>, b, r, e), right_at(Number<j>,
/// b, c, e), factor_at(Number<s>, b, n, c); kFactorScores has four bits for each sum, of which 1 + j says that its factor is
/// score j's right side, which has no factor_at; weights(b, r, c, row_values(b, r), position_values(b, c), scores, weights of all sums), or where all
/// pairs are within the band weights_within(the same), which is no other unless kMasked; load and store as for MatMul.
/// With kSoftmax `weights` gives what the weights are the softmax of, and store_row(b, r, acc) gets the row's maximum and sum
/// of exponentials, both kept up block by block (ScoredRegion).
template <class F>
class Scored {
    static constexpr I32 kWide = (F::kColumns + 7) / 8;  ///< fragments of a row of one sum that are laid out
    static constexpr I32 kStride = kWide * 8 + 8;  ///< from one row of sums to the next, in shared memory
    template <class Config>
    using Stages = ScoredStages<F, Config>;
    template <class Config>
    using Sums = ScoredSums<F, Config>;
    template <class Config>
    using Task = typename ScoredStages<F, Config>::Task;

public:
    /// Do products run beside what follows their start (wgmma)?
    template <class Config>
    static constexpr bool kRunsAhead = Sums<Config>::Products::kRunAhead;

    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const Task<Config> task(record);
        const Sums<Config> sums = add_up<Config>(f, task);
        consumer_barrier<Config>();
        if (Stages<Config>::adds()) {
            if constexpr (F::kColumns > 0) {
                lay_out<Config>(sums);
                if constexpr (F::kSoftmax) lay_out_statistics<Config>(sums);
            } else {
                lay_out_reduced<Config>(sums);
            }
        }
        consumer_barrier<Config>();
        if constexpr (kRunsAhead<Config>) {
            store_apart<Config>(record, launch_parameter());
        } else {
            store<Config>(f, task);
        }
        return cursor;
    }

private:
    /// A function of its own may use the registers that the sums had.
    template <class Config>
    static __device__ __noinline__ void store_apart(const abi::Record& record, const abi::Launch& launch) {
        store<Config>(F{Operands(record, launch)}, Task<Config>(record));
    }

    template <class Config>
    static __device__ __forceinline__ void store(const F& f, const Task<Config>& task) {
        if constexpr (F::kColumns > 0) {
            store_rows<Config>(f, task);
        } else {
            store_reduced<Config>(f, task);
        }
    }

    template <class Config>
    static __device__ __forceinline__ Sums<Config> add_up(const F& f, const Task<Config>& task) {
        using Staged = Stages<Config>;
        constexpr I32 kAhead = F::kStages - 1;
        static_assert(kAhead >= 1);
        const U32 first = shared_address(Staged::stages());
        const U32 last = first + kAhead * Staged::kBytes;
        U32 writing = first;
        U32 reading = first;
        const auto advance = [&](U32& at) { at = at == last ? first : at + Staged::kBytes; };
        Staged::stage_left(f, task);
        for (I32 ahead = 0; ahead < kAhead; ++ahead) {
            Staged::stage_turn(f, task, task.begin + ahead * Staged::kTurn, writing);
            advance(writing);
        }
        ScoredPositions<F, Config> positions;
        positions.load(f, task, task.begin);
        positions.put();
        Sums<Config> sums(f, task);
#pragma unroll 1
        for (I32 c = task.begin; c < task.end; c += Staged::kTurn) {
            wait_for_copies<kAhead - 1>();
            Sums<Config>::Products::publish_copies();
            consumer_barrier<Config>();
            Staged::stage_turn(f, task, c + kAhead * Staged::kTurn, writing);
            advance(writing);
            positions.load(f, task, c + Staged::kTurn);
            const I32 mine = c + Staged::turn_block() * abi::kScoredBlock;
            if (Staged::adds() && mine < task.end) sums.add_block(f, task, mine, reading, positions);
            positions.put();
            advance(reading);
        }
        return sums;
    }

    /// A row of a warp's block of sum `s`, where the stages were.
    template <class Config>
    static __device__ __forceinline__ float* laid_out(I32 s, I32 block, I32 row) {
        const I32 rows = (s * Stages<Config>::kAcross + block) * F::kRows + row;
        return reinterpret_cast<float*>(Stages<Config>::stages()) + rows * kStride;
    }
    /// The first of this lane's two rows, of this warp's block.
    template <class Config>
    static __device__ __forceinline__ float* own_row(I32 s, int half) {
        const I32 row = Stages<Config>::first_row() + Sums<Config>::lane() / 4 + half * 8;
        return laid_out<Config>(s, Stages<Config>::turn_block(), row);
    }

    template <class Config>
    static __device__ __forceinline__ void lay_out(const Sums<Config>& sums) {
#pragma unroll
        for (int s = 0; s < F::kSums; ++s) {
#pragma unroll
            for (I32 n = 0; n < kWide; ++n) {
                const float(&from)[4] = sums.fragments[s][n];
                const I32 column = n * 8 + Sums<Config>::lane() % 4 * 2;
                *reinterpret_cast<float2*>(own_row<Config>(s, 0) + column) = make_float2(from[0], from[1]);
                *reinterpret_cast<float2*>(own_row<Config>(s, 1) + column) = make_float2(from[2], from[3]);
            }
        }
    }

    /// Behind a row's sums: its maximum, and its sum of exponentials less that.
    template <class Config>
    static __device__ __forceinline__ void lay_out_statistics(const Sums<Config>& sums) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = sums.rows[half];
            total += __shfl_xor_sync(~0u, total, 2);
            total += __shfl_xor_sync(~0u, total, 1);
            float* row = own_row<Config>(0, half);
            if (Sums<Config>::lane() % 4 == 0) {
                row[kWide * 8] = sums.maxima[half];
                row[kWide * 8 + 1] = total;
            }
        }
    }

    /// How the parts of a row add up: by how much the sums of each block of a turn count.
    template <class Config>
    struct Shares {
        static constexpr I32 kAcross = Stages<Config>::kAcross;
        float of[kAcross];
        float statistics[2] = {};

        __device__ __forceinline__ explicit Shares(I32 m) {
            if constexpr (F::kSoftmax) {
                float top = laid_out<Config>(0, 0, m)[kWide * 8];
#pragma unroll
                for (I32 block = 1; block < kAcross; ++block)
                    top = fmaxf(top, laid_out<Config>(0, block, m)[kWide * 8]);
                float total = 0;
#pragma unroll
                for (I32 block = 0; block < kAcross; ++block) {
                    const float* row = laid_out<Config>(0, block, m) + kWide * 8;
                    of[block] = quick_exponential(row[0] - Sums<Config>::shift_of(top));
                    total += of[block] * row[1];
                }
#pragma unroll
                for (float& share : of) share = quick_quotient(share, total);
                statistics[0] = top;
                statistics[1] = total;
            } else {
#pragma unroll
                for (float& share : of) share = 1;
            }
        }
    };

    using Early = typename EarlyOf<F>::Type;

    template <class Config>
    static __device__ __forceinline__ void store_rows(const F& f, const Task<Config>& task) {
        constexpr I32 kPerRow = F::kColumns / F::kVector;
        constexpr I32 kRounds = (F::kRows * kPerRow + Config::kThreads - 1) / Config::kThreads;
        constexpr I32 kAhead = kRounds < groups_ahead<Early> ? kRounds : groups_ahead<Early>;
        const I32 items = task.count() * kPerRow;
        const auto uniform = EarlyOf<F>::uniform(f);
#pragma unroll 1
        for (I32 first = thread_here(); first < items; first += kAhead * Config::kThreads) {
            Early early[kAhead];
#pragma unroll
            for (I32 i = 0; i < kAhead; ++i) {
                const I32 item = min(first + i * Config::kThreads, items - 1);
                early[i] = EarlyOf<F>::load(f, task.b, task.rows.begin + item / kPerRow,
                                            item % kPerRow * F::kVector);
            }
#pragma unroll
            for (I32 i = 0; i < kAhead; ++i) {
                const I32 item = first + i * Config::kThreads;
                if (item < items)
                    store_item<Config>(f, task, item / kPerRow, item % kPerRow * F::kVector, early[i],
                                       uniform);
            }
        }
    }

    /// Stores kVector neighbouring results of row `m` of the task.
    template <class Config>
    static __device__ __forceinline__ void store_item(const F& f, const Task<Config>& task, I32 m, I32 n,
                                                      Early& early,
                                                      const typename EarlyOf<F>::Uniform& uniform) {
        const Shares<Config> shares(m);
        float acc[F::kSums * F::kVector];
#pragma unroll
        for (I32 s = 0; s < F::kSums; ++s) {
#pragma unroll
            for (I32 block = 0; block < Stages<Config>::kAcross; ++block) {
                const auto part = read_vector<F::kVector>(laid_out<Config>(s, block, m) + n);
#pragma unroll
                for (I32 v = 0; v < F::kVector; ++v) {
                    float& sum = acc[s * F::kVector + v];
                    const float term = part.elements[v] * shares.of[block];
                    sum = block == 0 ? term : sum + term;
                }
            }
        }
        store_group(f, task.b, task.rows.begin + m, n, acc, early, uniform);
        if (F::kSoftmax && n == 0) f.store_row(task.b, task.rows.begin + m, shares.statistics);
    }

    template <int N>
    static __device__ __forceinline__ void store_group(const F& f, I32 b, I32 m, I32 n, const float (&acc)[N],
                                                       Early& early,
                                                       const typename EarlyOf<F>::Uniform& uniform) {
        if constexpr (F::kVector > 1) {
            f.store_vector(b, m, n, acc, early, uniform);
        } else {
            await(f, early, [&] { return f.load(b, m, n); });
            f.store(b, m, n, acc, early);
        }
    }

    template <class Config>
    static __device__ __forceinline__ void lay_out_reduced(const Sums<Config>& sums) {
        const typename F::Combine combine;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float value = sums.rows[half];
            value = combine(value, __shfl_xor_sync(~0u, value, 2));
            value = combine(value, __shfl_xor_sync(~0u, value, 1));
            if (Sums<Config>::lane() % 4 == 0) *own_row<Config>(0, half) = value;
        }
    }

    template <class Config>
    static __device__ __forceinline__ void store_reduced(const F& f, const Task<Config>& task) {
        const typename F::Combine combine;
#pragma unroll 1
        for (I32 m = thread_here(); m < task.count(); m += Config::kThreads) {
            float acc[1] = {*laid_out<Config>(0, 0, m)};
#pragma unroll
            for (I32 block = 1; block < Stages<Config>::kAcross; ++block)
                acc[0] = combine(acc[0], *laid_out<Config>(0, block, m));
            Early early = EarlyOf<F>::load(f, task.b, task.rows.begin + m, 0);
            store_group(f, task.b, task.rows.begin + m, 0, acc, early, EarlyOf<F>::uniform(f));
        }
    }
};

}  // namespace stretto::device
