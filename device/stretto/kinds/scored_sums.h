#pragma once

#include "stretto/kinds/scored_positions.h"
#include "stretto/kinds/scored_products.h"

namespace stretto::device {

/// The sums of one warp of Scored<F>, in registers. Fragments of scores become weights in place, and those of the left factor
/// of the second product as they are.
template <class F, class Config>
struct ScoredSums {
    using Stages = ScoredStages<F, Config>;
    using Products = typename ScoredProductsOf<F, Config>::Type;
    using Task = typename Stages::Task;
    using Positions = ScoredPositions<F, Config>;
    using Element = typename F::Element;
    static constexpr I32 kBlock = abi::kScoredBlock;
    static constexpr I32 kChunk = 16;  ///< positions whose weights are multiplied together
    static constexpr bool kWhole = F::kContext % kBlock == 0;  ///< all blocks are
    static_assert(F::kSums == 1 || (F::kColumns > 0 && !F::kSoftmax));

    using Weights = ScoredWeights;

    float fragments[F::kSums][Products::kWide == 0 ? 1 : Products::kWide][4] = {};
    float rows[2] = {F::Combine::template start<float>(), F::Combine::template start<float>()};
    float maxima[2] = {-infinity<float>(), -infinity<float>()};

    __device__ __forceinline__ ScoredSums(const F& f, const Task& task) {
        const I32 row = task.rows.begin + Stages::first_row() + lane() / 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row_numbers_[half] = min(row + half * 8, task.rows.end - 1);
            row_values_[half] = f.row_values(task.b, row_numbers_[half]);
        }
    }

    /// Adds this warp's block of positions from `c` on, of the turn staged at `stage`.
    __device__ __forceinline__ void add_block(const F& f, const Task& task, I32 c, U32 stage,
                                              const Positions& positions) {
        Scores scores = {};
        for_each_number<0, F::kScores>([&]<int J>(Number<J>) { products_.begin(scores[J]); });
        for_each_number<0, F::kScores>(
            [&]<int J>(Number<J>) { products_.template add_score<J>(stage, scores[J]); });
        for_each_number<0, F::kScores>([&]<int J>(Number<J>) { products_.finish(scores[J]); });
        if constexpr (!F::kMasked && kWhole) {
            add_weights<true>(f, task, c, stage, positions, scores);
        } else if (is_within(task, c)) {
            add_weights<true>(f, task, c, stage, positions, scores);
        } else {
            add_weights<false>(f, task, c, stage, positions, scores);
        }
    }

    /// What a row's exponents are shifted by; where all are -inf by nothing.
    static __device__ __forceinline__ float shift_of(float maximum) {
        return maximum == -infinity<float>() ? 0 : maximum;
    }

    static __device__ __forceinline__ I32 lane() { return static_cast<I32>(threadIdx.x % 32); }

private:
    /// Of a block; they become the weights of all sums.
    using Scores = Weights[F::kScores > F::kSums ? F::kScores : F::kSums];

    /// What changes nothing: a weight, or what a softmax is taken of.
    static __device__ __forceinline__ float nothing() {
        return F::kSoftmax ? -infinity<float>() : F::Combine::template start<float>();
    }

    static __device__ __forceinline__ I32 inside(I32 position) {
        return kWhole ? position : min(position, F::kContext - 1);
    }

    /// Is each pair of a row of the task and a position of the block at `c` in the band? The same for all warps.
    static __device__ __forceinline__ bool is_within(const Task& task, I32 c) {
        return (kWhole || c + kBlock <= F::kContext) && c - (task.rows.end - 1) >= F::kBandBegin &&
               c + kBlock - 1 - task.rows.begin < F::kBandEnd;
    }

    template <bool Within>
    __device__ __forceinline__ void add_weights(const F& f, const Task& task, I32 c, U32 stage,
                                                const Positions& positions, Scores& scores) {
        constexpr bool kScaled = Within && F::kFactor > 0;
        if constexpr (F::kSoftmax) {
#pragma unroll
            for (I32 k = 0; k < kBlock; k += kChunk) take_weights<Within>(f, task, c, k, positions, scores);
            raise_maxima<kScaled>(scores[0]);
        }
        if constexpr (F::kColumns > 0)
            for_each_number<0, F::kSums>([&]<int S>(Number<S>) { products_.begin(fragments[S]); });
#pragma unroll
        for (I32 k = 0; k < kBlock; k += kChunk) {
            if constexpr (F::kSoftmax) {
                take_exponentials<kScaled>(scores[0], k);
            } else {
                take_weights<Within>(f, task, c, k, positions, scores);
            }
            if constexpr (F::kColumns > 0) {
                for_each_number<0, F::kSums>([&]<int S>(Number<S>) {
                    products_.template add_factor<S>(stage, left_fragment<Element>(scores[S], k), k,
                                                     fragments[S]);
                });
            } else {
                const typename F::Combine combine;
                each_weight(scores[0], k, kChunk,
                            [&](int half, float& x) { rows[half] = combine(rows[half], x); });
            }
        }
        if constexpr (F::kColumns > 0)
            for_each_number<0, F::kSums>([&]<int S>(Number<S>) { products_.finish(fragments[S]); });
    }

    /// Turns the scores of each pair of a chunk into its weights; those of positions beyond the context are what changes no sum.
    template <bool Within>
    __device__ __forceinline__ void take_weights(const F& f, const Task& task, I32 c, I32 chunk,
                                                 const Positions& positions, Scores& scores) const {
#pragma unroll
        for (I32 j = chunk / 8; j < (chunk + kChunk) / 8; ++j) {
            const I32 first = j * 8 + lane() % 4 * 2;
            const auto pair = positions.pair(f, task, c, first);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const I32 at = c + first + i % 2;
                float values[F::kScores];
                float weights[F::kSums];
#pragma unroll
                for (int s = 0; s < F::kScores; ++s) values[s] = scores[s][j][i];
                const auto& row = row_values_[i / 2];
                if constexpr (Within) {
                    f.weights_within(task.b, row_numbers_[i / 2], at, row, pair.of[i % 2], values, weights);
                } else {
                    f.weights(task.b, row_numbers_[i / 2], inside(at), row, pair.of[i % 2], values, weights);
                }
#pragma unroll
                for (int s = 0; s < F::kSums; ++s)
                    scores[s][j][i] = Within || at == inside(at) ? weights[s] : nothing();
            }
        }
    }

    /// Raises the maxima to those of the block, and turns what was added before into terms of them. What the softmax is taken of
    /// are the weights, or where `Scaled`, their products with kFactor.
    template <bool Scaled>
    __device__ __forceinline__ void raise_maxima(Weights& weights) {
        float top[2] = {-infinity<float>(), -infinity<float>()};
        each_weight(weights, 0, kBlock, [&](int half, float& x) { top[half] = fmaxf(top[half], x); });
        float keep[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            top[half] = fmaxf(maxima[half], Scaled ? top[half] * F::kFactor : top[half]);
            top[half] = fmaxf(top[half], __shfl_xor_sync(~0u, top[half], 2));
            top[half] = fmaxf(top[half], __shfl_xor_sync(~0u, top[half], 1));
            keep[half] = quick_exponential(maxima[half] - shift_of(top[half]));
            maxima[half] = top[half];
            rows[half] *= keep[half];
        }
#pragma unroll
        for (auto& fragment : fragments[0]) {
#pragma unroll
            for (int i = 0; i < 4; ++i) fragment[i] *= keep[i / 2];
        }
    }

    /// Turns x of a chunk into exp(x - the row's largest so far).
    template <bool Scaled>
    __device__ __forceinline__ void take_exponentials(Weights& weights, I32 chunk) {
        const float shift[2] = {shift_of(maxima[0]), shift_of(maxima[1])};
        each_weight(weights, chunk, kChunk, [&](int half, float& x) {
            x = Scaled ? quick_exponential(x, F::kFactor, shift[half]) : quick_exponential(x - shift[half]);
            rows[half] += x;
        });
    }

    /// body(which of the lane's two rows, weight) of `count` positions, by ascending position.
    template <class Body>
    static __device__ __forceinline__ void each_weight(Weights& weights, I32 from, I32 count, Body&& body) {
#pragma unroll
        for (I32 j = from / 8; j < (from + count) / 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) body(i / 2, weights[j][i]);
        }
    }

    Products products_;
    I32 row_numbers_[2];
    typename F::Row row_values_[2];
};

}  // namespace stretto::device
