#pragma once

#include "stretto/kinds/scored_stages.h"
#include "stretto/tile/pairs.h"

namespace stretto::device {

/// The sums of one warp of Scored<F>, in registers. Fragments of scores become weights in place, and those of the left factor
/// of the second product as they are.
template <class F, class Config>
struct ScoredSums {
    using Stages = ScoredStages<F, Config>;
    using Task = typename Stages::Task;
    using Element = typename F::Element;
    static constexpr I32 kBlock = abi::kScoredBlock;
    static constexpr I32 kWide = (F::kColumns + 7) / 8;  ///< fragments of a row of one sum
    static constexpr I32 kFragments = kBlock / 8;        ///< of a row of scores
    static_assert(F::kSums == 1 || (F::kColumns > 0 && !F::kSoftmax));

    using Weights = float[kFragments][4];

    float fragments[F::kSums][kWide == 0 ? 1 : kWide][4] = {};
    float rows[2] = {F::Combine::template start<float>(), F::Combine::template start<float>()};
    float maxima[2] = {-infinity<float>(), -infinity<float>()};

    /// Adds this warp's block of positions from `c` on, of the turn staged at `stage`.
    __device__ __forceinline__ void add_block(const F& f, const Task& task, I32 c, U32 stage) {
        Weights scores[F::kScores > F::kSums ? F::kScores : F::kSums] = {};
        for_each_number<0, F::kScores>([&]<int J>(Number<J>) { multiply_sides<J>(stage, scores[J]); });
        take_weights(f, task, c, scores);
        if constexpr (F::kSoftmax) take_exponentials(scores[0]);
        if constexpr (F::kColumns > 0) {
            for_each_number<0, F::kSums>([&]<int S>(Number<S>) { multiply_factor<S>(stage, scores[S]); });
        } else {
            const typename F::Combine combine;
            each_weight(scores[0], [&](int half, float& x) { rows[half] = combine(rows[half], x); });
        }
    }

    /// What a row's exponents are shifted by; where all are -inf by nothing.
    static __device__ __forceinline__ float shift_of(float maximum) {
        return maximum == -infinity<float>() ? 0 : maximum;
    }

    static __device__ __forceinline__ I32 lane() { return static_cast<I32>(threadIdx.x % 32); }

private:
    /// What changes nothing: a weight, or what a softmax is taken of.
    static __device__ __forceinline__ float nothing() {
        return F::kSoftmax ? -infinity<float>() : F::Combine::template start<float>();
    }

    template <int J>
    static __device__ __forceinline__ void multiply_sides(U32 stage, Weights& scores) {
        constexpr bool kLeftColumn = Stages::template kIsColumn<F::kLeftColumns, J>;
        constexpr bool kRightColumn = Stages::template kIsColumn<F::kRightColumns, J>;
#pragma unroll
        for (I32 e = 0; e < F::kDepth; e += 16) {
            const U32 left = Stages::template left<J>(e / kBlock);
            const U32 right = Stages::template right<J>(stage, e / kBlock);
            const uint4 a = load_matrices<kLeftColumn>(
                matrix_row<Element, kLeftColumn, false>(left, Stages::first_row(), e % kBlock));
#pragma unroll
            for (I32 j = 0; j < kFragments; j += 2) {
                const I32 from = Stages::turn_block() * kBlock + j * 8;
                const uint4 b = load_matrices<kRightColumn>(
                    matrix_row<Element, kRightColumn, true>(right, from, e % kBlock));
                multiply_add_tile<Element>(scores[j], a, b.x, b.y);
                multiply_add_tile<Element>(scores[j + 1], a, b.z, b.w);
            }
        }
    }

    /// Turns the scores of each pair into its weights; those of positions beyond the context are what changes no sum.
    template <int N>
    static __device__ __forceinline__ void take_weights(const F& f, const Task& task, I32 c,
                                                        Weights (&scores)[N]) {
        constexpr bool kWhole = F::kContext % kBlock == 0;  // all blocks are
        const I32 row = task.rows.begin + Stages::first_row() + lane() / 4;
        const I32 last = task.rows.end - 1;
        const I32 rows[2] = {min(row, last), min(row + 8, last)};
#pragma unroll
        for (I32 j = 0; j < kFragments; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const I32 at = c + j * 8 + lane() % 4 * 2 + i % 2;
                const I32 inside = kWhole ? at : min(at, F::kContext - 1);
                float values[F::kScores];
                float weights[F::kSums];
#pragma unroll
                for (int s = 0; s < F::kScores; ++s) values[s] = scores[s][j][i];
                f.weights(task.b, rows[i / 2], inside, values, weights);
#pragma unroll
                for (int s = 0; s < F::kSums; ++s) scores[s][j][i] = at == inside ? weights[s] : nothing();
            }
        }
    }

    /// Turns x into exp(x - the row's largest so far), and what was added before into terms of the same maximum.
    __device__ __forceinline__ void take_exponentials(Weights& weights) {
        float top[2] = {maxima[0], maxima[1]};
        each_weight(weights, [&](int half, float& x) { top[half] = fmaxf(top[half], x); });
        float shift[2];
        float keep[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            top[half] = fmaxf(top[half], __shfl_xor_sync(~0u, top[half], 2));
            top[half] = fmaxf(top[half], __shfl_xor_sync(~0u, top[half], 1));
            shift[half] = shift_of(top[half]);
            keep[half] = quick_exponential(maxima[half] - shift[half]);
            maxima[half] = top[half];
            rows[half] *= keep[half];
        }
        each_weight(weights, [&](int half, float& x) {
            x = quick_exponential(x - shift[half]);
            rows[half] += x;
        });
#pragma unroll
        for (auto& fragment : fragments[0]) {
#pragma unroll
            for (int i = 0; i < 4; ++i) fragment[i] *= keep[i / 2];
        }
    }

    /// body(which of the lane's two rows, weight), by ascending position.
    template <class Body>
    static __device__ __forceinline__ void each_weight(Weights& weights, Body&& body) {
#pragma unroll
        for (I32 j = 0; j < kFragments; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) body(i / 2, weights[j][i]);
        }
    }

    template <int S>
    __device__ __forceinline__ void multiply_factor(U32 stage, const Weights& weights) {
        constexpr bool kColumn = Stages::template kIsColumn<F::kFactorColumns, S>;
#pragma unroll
        for (I32 k = 0; k < kBlock; k += 16) {
            const float(&near)[4] = weights[k / 8];
            const float(&far)[4] = weights[k / 8 + 1];
            const uint4 a = make_uint4(packed<Element>(near[0], near[1]), packed<Element>(near[2], near[3]),
                                       packed<Element>(far[0], far[1]), packed<Element>(far[2], far[3]));
#pragma unroll
            for (I32 n = 0; n < kWide; n += 2) {
                const U32 panel = Stages::template factor<S>(stage, Stages::turn_block(), n * 8 / kBlock);
                const uint4 b =
                    load_matrices<kColumn>(matrix_row<Element, kColumn, true>(panel, n * 8 % kBlock, k));
                multiply_add_tile<Element>(fragments[S][n], a, b.x, b.y);
                if (n + 1 < kWide) multiply_add_tile<Element>(fragments[S][n + 1], a, b.z, b.w);
            }
        }
    }
};

}  // namespace stretto::device
