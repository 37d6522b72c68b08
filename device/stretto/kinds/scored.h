#pragma once

#include "stretto/operands.h"
#include "stretto/tile/pairs.h"
#include "stretto/tile/vector.h"
#include "stretto/tile/warp_tile.h"

namespace stretto::device {

/// A sum over context positions whose weights come from scores, which live in registers only (Dao et al., FlashAttention-2,
/// 2023). A warp has 16 rows; the warps that share them take turns with blocks of positions, and their sums are added in
/// order. Fragments of scores become those of the left factor of the second product as they are.
/// F: kRows (of a task), kScores, kDepth, kColumns (of the factor, 0 where there is none), kContext, kStages, kBandBegin,
/// kBandEnd, kSoftmax, Element, Combine, kVector; of each operand whether its rows are neighbours (bit j of kLeftColumns and
/// kRightColumns for score j, kFactorColumn) and how many elements always lie together (kLeftGrain, kRightGrain,
/// kFactorGrain), and the address of an element: left_at(Number<j>, b, r, e), right_at(Number<j>, b, c, e), factor_at(b, n,
/// c); weight(b, r, c, scores); load and store as for MatMul. With kSoftmax `weight` is what the weights are the softmax of,
/// and store_row(b, r, acc) gets the row's maximum and sum of exponentials, both kept up block by block (ScoredRegion).
template <class F>
class Scored {
    using Element = typename F::Element;
    static constexpr I32 kBlock = abi::kScoredBlock;
    static constexpr I32 kDeep = (F::kDepth + kBlock - 1) / kBlock;  ///< blocks of a score's depth
    static constexpr I32 kWide = (F::kColumns + 7) / 8;              ///< fragments of a row of sums
    static constexpr I32 kFactorLines = static_cast<I32>(abi::round_up(F::kColumns, kBlock));
    static constexpr I32 kStride = kWide * 8 + 8;  ///< from one row of sums to the next, in shared memory
    static constexpr I32 kFragments = kBlock / 8;  ///< of a row of scores
    static constexpr abi::ScoredShape kShape{F::kRows, F::kScores, F::kDepth, F::kColumns, F::kStages};

    template <class Config>
    static constexpr I32 kAcross = static_cast<I32>(abi::scored_across(F::kRows, Config::kWarps));
    template <class Config>
    static constexpr I32 kTurn = kAcross<Config>* kBlock;  ///< positions of a stage
    template <class Config>
    static constexpr U32 kStageBytes = static_cast<U32>(abi::scored_stage(kShape, Config::kWarps));

    template <I32 Columns, int J>
    static constexpr bool kIsColumn = (Columns >> J & 1) != 0;

    /// A task's rows, and the positions that they see.
    struct Task {
        I32 b;
        abi::Range rows;
        I32 begin;
        I32 end;

        __device__ __forceinline__ explicit Task(const abi::Record& record)
            : b(record.tile[0].begin),
              rows(record.tile[1]),
              begin(max(rows.begin + F::kBandBegin, 0) / kBlock * kBlock),
              end(min((rows.end - 1 + F::kBandEnd + kBlock - 1) / kBlock * kBlock, F::kContext)) {}
        [[nodiscard]] __device__ __forceinline__ I32 count() const { return rows.end - rows.begin; }
    };

    using Scores = float[F::kScores][kFragments][4];
    /// What changes nothing: a weight, or what a softmax is taken of.
    static __device__ __forceinline__ float nothing() {
        return F::kSoftmax ? -infinity<float>() : F::Combine::template start<float>();
    }
    struct Sums {
        float fragments[kWide == 0 ? 1 : kWide][4] = {};
        float rows[2] = {F::Combine::template start<float>(), F::Combine::template start<float>()};
        float maxima[2] = {-infinity<float>(), -infinity<float>()};
    };

public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const Task task(record);
        const Sums sums = add_up<Config>(f, task);
        consumer_barrier<Config>();
        if constexpr (F::kColumns > 0) {
            if (adds<Config>()) {
                lay_out<Config>(sums);
                if constexpr (F::kSoftmax) lay_out_statistics<Config>(sums);
            }
            consumer_barrier<Config>();
            store_rows<Config>(f, task);
        } else {
            if (adds<Config>()) lay_out_reduced<Config>(sums);
            consumer_barrier<Config>();
            store_reduced<Config>(f, task);
        }
        return cursor;
    }

private:
    template <class Config>
    static __device__ __forceinline__ U8* sides() {
        U8* begin = scratch<Config>();
        return begin + (0 - shared_address(begin)) % abi::kLineGroupBytes;
    }
    template <class Config>
    static __device__ __forceinline__ U8* stages() {
        return sides<Config>() + abi::scored_side(kShape, F::kRows);
    }
    static __device__ __forceinline__ I32 lane() { return static_cast<I32>(threadIdx.x % 32); }
    /// Of this warp: its first row in the task, and which blocks of a turn are its own.
    static __device__ __forceinline__ I32 first_row() { return threadIdx.x / 32 % (F::kRows / 16) * 16; }
    static __device__ __forceinline__ I32 turn_block() { return threadIdx.x / 32 / (F::kRows / 16); }
    /// Warps that are too few to share the rows once more only copy.
    template <class Config>
    static __device__ __forceinline__ bool adds() {
        return Config::kWarps % (F::kRows / 16) == 0 || turn_block() < kAcross<Config>;
    }

    template <class Config>
    static __device__ __forceinline__ void stage_left(const F& f, const Task& task) {
        for_each_number<0, F::kScores>([&]<int J>(Number<J> j) {
#pragma unroll
            for (I32 d = 0; d < kDeep; ++d) {
                stage_block<Config, Element, F::kRows, kIsColumn<F::kLeftColumns, J>, F::kLeftGrain, false>(
                    shared_address(sides<Config>()) + (J * kDeep + d) * F::kRows * abi::kLineBytes,
                    task.count(),
                    [&](I32) {
                        return Depth{0, F::kDepth - d * kBlock};
                    },
                    [&](I32 m, I32 k) { return f.left_at(j, task.b, task.rows.begin + m, d * kBlock + k); });
            }
        });
    }

    /// Starts the copies of a turn's positions from `c` on, if the task has any of them.
    template <class Config>
    static __device__ __forceinline__ void stage_turn(const F& f, const Task& task, I32 c, U32 to) {
        if (c < task.end) {
            for_each_number<0, F::kScores>([&]<int J>(Number<J> j) {
#pragma unroll
                for (I32 d = 0; d < kDeep; ++d) {
                    stage_block<Config, Element, kTurn<Config>, kIsColumn<F::kRightColumns, J>,
                                F::kRightGrain, false>(
                        to, task.end - c,
                        [&](I32) {
                            return Depth{0, F::kDepth - d * kBlock};
                        },
                        [&](I32 row, I32 k) { return f.right_at(j, task.b, c + row, d * kBlock + k); });
                    to += kTurn<Config> * abi::kLineBytes;
                }
            });
            if constexpr (F::kColumns > 0) {
#pragma unroll
                for (I32 block = 0; block < kAcross<Config>; ++block) {
                    const I32 from = c + block * kBlock;
                    // A block that is outside is zero, wherever it is.
                    const I32 first = from < task.end ? from : c;
                    stage_block<Config, Element, kFactorLines, F::kFactorColumn, F::kFactorGrain, false>(
                        to, F::kColumns,
                        [&](I32) {
                            return Depth{0, task.end - from};
                        },
                        [&](I32 n, I32 k) { return f.factor_at(task.b, n, first + k); });
                    to += kFactorLines * abi::kLineBytes;
                }
            }
        }
        commit_copies();
    }

    template <class Config>
    static __device__ __forceinline__ Sums add_up(const F& f, const Task& task) {
        constexpr I32 kAhead = F::kStages - 1;
        static_assert(kAhead >= 1);
        const U32 first = shared_address(stages<Config>());
        const U32 last = first + kAhead * kStageBytes<Config>;
        U32 writing = first;
        U32 reading = first;
        const auto advance = [&](U32& at) { at = at == last ? first : at + kStageBytes<Config>; };
        stage_left<Config>(f, task);
        for (I32 ahead = 0; ahead < kAhead; ++ahead) {
            stage_turn<Config>(f, task, task.begin + ahead * kTurn<Config>, writing);
            advance(writing);
        }
        Sums sums;
#pragma unroll 1
        for (I32 c = task.begin; c < task.end; c += kTurn<Config>) {
            wait_for_copies<kAhead - 1>();
            consumer_barrier<Config>();
            stage_turn<Config>(f, task, c + kAhead * kTurn<Config>, writing);
            advance(writing);
            const I32 mine = c + turn_block() * kBlock;
            if (adds<Config>() && mine < task.end) add_block<Config>(f, task, mine, reading, sums);
            advance(reading);
        }
        return sums;
    }

    /// Adds this warp's block of positions from `c` on, of the turn staged at `stage`.
    template <class Config>
    static __device__ __forceinline__ void add_block(const F& f, const Task& task, I32 c, U32 stage,
                                                     Sums& sums) {
        Scores scores = {};
        for_each_number<0, F::kScores>(
            [&]<int J>(Number<J>) { multiply_sides<Config, J>(stage, scores[J]); });
        take_weights(f, task, c, scores);
        if constexpr (F::kSoftmax) take_exponentials(scores[0], sums);
        if constexpr (F::kColumns > 0) {
            const U32 factors = stage + F::kScores * kDeep * kTurn<Config> * abi::kLineBytes;
            multiply_factor(factors + turn_block() * (kFactorLines * abi::kLineBytes), scores[0], sums);
        } else {
            const typename F::Combine combine;
            each_weight(scores[0],
                        [&](int half, float& x) { sums.rows[half] = combine(sums.rows[half], x); });
        }
    }

    template <class Config, int J>
    static __device__ __forceinline__ void multiply_sides(U32 stage, float (&scores)[kFragments][4]) {
        constexpr bool kLeftColumn = kIsColumn<F::kLeftColumns, J>;
        constexpr bool kRightColumn = kIsColumn<F::kRightColumns, J>;
        const U32 sides_begin = shared_address(sides<Config>());
#pragma unroll
        for (I32 e = 0; e < F::kDepth; e += 16) {
            const U32 block = J * kDeep + e / kBlock;
            const U32 left = sides_begin + block * (F::kRows * abi::kLineBytes);
            const U32 right = stage + block * (kTurn<Config> * abi::kLineBytes);
            const uint4 a = load_matrices<kLeftColumn>(
                matrix_row<Element, kLeftColumn, false>(left, first_row(), e % kBlock));
#pragma unroll
            for (I32 j = 0; j < kFragments; j += 2) {
                const I32 from = turn_block() * kBlock + j * 8;
                const uint4 b = load_matrices<kRightColumn>(
                    matrix_row<Element, kRightColumn, true>(right, from, e % kBlock));
                multiply_add_tile<Element>(scores[j], a, b.x, b.y);
                multiply_add_tile<Element>(scores[j + 1], a, b.z, b.w);
            }
        }
    }

    /// Turns the first scores into weights; those of positions beyond the context are what changes no sum.
    static __device__ __forceinline__ void take_weights(const F& f, const Task& task, I32 c, Scores& scores) {
        constexpr bool kWhole = F::kContext % kBlock == 0;  // all blocks are
        const I32 row = task.rows.begin + first_row() + lane() / 4;
        const I32 last = task.rows.end - 1;
        const I32 rows[2] = {min(row, last), min(row + 8, last)};
#pragma unroll
        for (I32 j = 0; j < kFragments; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const I32 at = c + j * 8 + lane() % 4 * 2 + i % 2;
                float values[F::kScores];
#pragma unroll
                for (int s = 0; s < F::kScores; ++s) values[s] = scores[s][j][i];
                const I32 inside = kWhole ? at : min(at, F::kContext - 1);
                const float weight = f.weight(task.b, rows[i / 2], inside, values);
                scores[0][j][i] = at == inside ? weight : nothing();
            }
        }
    }

    /// What a row's exponents are shifted by; where all are -inf by nothing.
    static __device__ __forceinline__ float shift_of(float maximum) {
        return maximum == -infinity<float>() ? 0 : maximum;
    }

    /// Turns x into exp(x - the row's largest so far), and what was added before into terms of the same maximum.
    static __device__ __forceinline__ void take_exponentials(float (&weights)[kFragments][4], Sums& sums) {
        float top[2] = {sums.maxima[0], sums.maxima[1]};
        each_weight(weights, [&](int half, float& x) { top[half] = fmaxf(top[half], x); });
        float shift[2];
        float keep[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            top[half] = fmaxf(top[half], __shfl_xor_sync(~0u, top[half], 2));
            top[half] = fmaxf(top[half], __shfl_xor_sync(~0u, top[half], 1));
            shift[half] = shift_of(top[half]);
            keep[half] = quick_exponential(sums.maxima[half] - shift[half]);
            sums.maxima[half] = top[half];
            sums.rows[half] *= keep[half];
        }
        each_weight(weights, [&](int half, float& x) {
            x = quick_exponential(x - shift[half]);
            sums.rows[half] += x;
        });
#pragma unroll
        for (auto& fragment : sums.fragments) {
#pragma unroll
            for (int i = 0; i < 4; ++i) fragment[i] *= keep[i / 2];
        }
    }

    /// body(which of the lane's two rows, weight), by ascending position.
    template <class Body>
    static __device__ __forceinline__ void each_weight(float (&weights)[kFragments][4], Body&& body) {
#pragma unroll
        for (I32 j = 0; j < kFragments; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) body(i / 2, weights[j][i]);
        }
    }

    static __device__ __forceinline__ void multiply_factor(U32 factor, const float (&weights)[kFragments][4],
                                                           Sums& sums) {
#pragma unroll
        for (I32 k = 0; k < kBlock; k += 16) {
            const float(&near)[4] = weights[k / 8];
            const float(&far)[4] = weights[k / 8 + 1];
            const uint4 a = make_uint4(packed<Element>(near[0], near[1]), packed<Element>(near[2], near[3]),
                                       packed<Element>(far[0], far[1]), packed<Element>(far[2], far[3]));
#pragma unroll
            for (I32 n = 0; n < kWide; n += 2) {
                const uint4 b = load_matrices<F::kFactorColumn>(
                    matrix_row<Element, F::kFactorColumn, true>(factor, n * 8, k));
                multiply_add_tile<Element>(sums.fragments[n], a, b.x, b.y);
                if (n + 1 < kWide) multiply_add_tile<Element>(sums.fragments[n + 1], a, b.z, b.w);
            }
        }
    }

    /// A row of this warp's block of sums, where the stages were.
    template <class Config>
    static __device__ __forceinline__ float* laid_out(I32 block, I32 row) {
        return reinterpret_cast<float*>(stages<Config>()) + (block * F::kRows + row) * kStride;
    }

    template <class Config>
    static __device__ __forceinline__ void lay_out(const Sums& sums) {
        const I32 row = first_row() + lane() / 4;
#pragma unroll
        for (I32 n = 0; n < kWide; ++n) {
            const float(&from)[4] = sums.fragments[n];
            const I32 column = n * 8 + lane() % 4 * 2;
            *reinterpret_cast<float2*>(laid_out<Config>(turn_block(), row) + column) =
                make_float2(from[0], from[1]);
            *reinterpret_cast<float2*>(laid_out<Config>(turn_block(), row + 8) + column) =
                make_float2(from[2], from[3]);
        }
    }

    /// Behind a row's sums: its maximum, and its sum of exponentials less that.
    template <class Config>
    static __device__ __forceinline__ void lay_out_statistics(const Sums& sums) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = sums.rows[half];
            total += __shfl_xor_sync(~0u, total, 2);
            total += __shfl_xor_sync(~0u, total, 1);
            float* row = laid_out<Config>(turn_block(), first_row() + lane() / 4 + half * 8);
            if (lane() % 4 == 0) {
                row[kWide * 8] = sums.maxima[half];
                row[kWide * 8 + 1] = total;
            }
        }
    }

    /// How the parts of a row add up: by how much the sums of each block of a turn count.
    template <class Config>
    struct Shares {
        float of[kAcross<Config>];
        float statistics[2] = {};

        __device__ __forceinline__ explicit Shares(I32 m) {
            if constexpr (F::kSoftmax) {
                float top = laid_out<Config>(0, m)[kWide * 8];
#pragma unroll
                for (I32 block = 1; block < kAcross<Config>; ++block)
                    top = fmaxf(top, laid_out<Config>(block, m)[kWide * 8]);
                float total = 0;
#pragma unroll
                for (I32 block = 0; block < kAcross<Config>; ++block) {
                    const float* row = laid_out<Config>(block, m) + kWide * 8;
                    of[block] = quick_exponential(row[0] - shift_of(top));
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

    template <class Config>
    static __device__ __forceinline__ void store_rows(const F& f, const Task& task) {
        constexpr I32 kPerRow = F::kColumns / F::kVector;
        const I32 items = task.count() * kPerRow;
#pragma unroll 1
        for (I32 item = thread_here(); item < items; item += Config::kThreads) {
            const I32 m = item / kPerRow;
            const I32 n = item % kPerRow * F::kVector;
            const Shares<Config> shares(m);
            float acc[F::kVector];
#pragma unroll
            for (int v = 0; v < F::kVector; ++v) {
                acc[v] = laid_out<Config>(0, m)[n + v] * shares.of[0];
#pragma unroll
                for (I32 block = 1; block < kAcross<Config>; ++block)
                    acc[v] += laid_out<Config>(block, m)[n + v] * shares.of[block];
            }
            store_group(f, task.b, task.rows.begin + m, n, acc);
            if (F::kSoftmax && n == 0) f.store_row(task.b, task.rows.begin + m, shares.statistics);
        }
    }

    template <int N>
    static __device__ __forceinline__ void store_group(const F& f, I32 b, I32 m, I32 n,
                                                       const float (&acc)[N]) {
        if constexpr (N > 1) {
            f.store_vector(b, m, n, acc, f.load_vector(b, m, n));
        } else {
            const auto load = [&] { return f.load(b, m, n); };
            auto early = load();
            await(f, early, load);
            f.store(b, m, n, acc, early);
        }
    }

    template <class Config>
    static __device__ __forceinline__ void lay_out_reduced(const Sums& sums) {
        const typename F::Combine combine;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float value = sums.rows[half];
            value = combine(value, __shfl_xor_sync(~0u, value, 2));
            value = combine(value, __shfl_xor_sync(~0u, value, 1));
            if (lane() % 4 == 0) *laid_out<Config>(turn_block(), first_row() + lane() / 4 + half * 8) = value;
        }
    }

    template <class Config>
    static __device__ __forceinline__ void store_reduced(const F& f, const Task& task) {
        const typename F::Combine combine;
#pragma unroll 1
        for (I32 m = thread_here(); m < task.count(); m += Config::kThreads) {
            float acc[1] = {*laid_out<Config>(0, m)};
#pragma unroll
            for (I32 block = 1; block < kAcross<Config>; ++block)
                acc[0] = combine(acc[0], *laid_out<Config>(block, m));
            store_group(f, task.b, task.rows.begin + m, 0, acc);
        }
    }
};

}  // namespace stretto::device
