#pragma once

#include "stretto/operands.h"
#include "stretto/tile/warp_tile.h"

namespace stretto::device {

/// Of the first `sums` sums those whose factor is no score's right side (Scored::kFactorScores).
constexpr I32 staged_factors(I32 factor_scores, I32 sums) {
    I32 count = 0;
    for (I32 s = 0; s < sums; ++s) count += (factor_scores >> (4 * s) & 15) == 0 ? 1 : 0;
    return count;
}

/// What a task of Scored<F> has in shared memory (abi::scored_scratch): the left sides of the scores, and stages of a turn of
/// context positions each, with the right sides and the factors. A factor that is the right side of a score is there once. A
/// warp has 16 rows; the warps that share them take turns with blocks of positions.
template <class F, class Config>
struct ScoredStages {
    using Element = typename F::Element;
    static constexpr I32 kBlock = abi::kScoredBlock;
    static constexpr I32 kDeep = (F::kDepth + kBlock - 1) / kBlock;  ///< blocks of a score's depth
    static constexpr I32 kFactorLines = static_cast<I32>(abi::round_up(F::kColumns, kBlock));
    static constexpr I32 kAcross = static_cast<I32>(abi::scored_across(F::kRows, Config::kWarps));
    static constexpr I32 kTurn = kAcross * kBlock;  ///< positions of a stage
    static constexpr U32 kBlockBytes = kBlock * abi::kLineBytes;

    /// The score whose right side the factor of sum S is; -1 where it is none's.
    template <int S>
    static constexpr I32 kFactorScore = (F::kFactorScores >> (4 * S) & 15) - 1;
    template <int S>
    static constexpr bool kHasStage = F::kColumns > 0 && kFactorScore<S> < 0;
    /// Factors before that of sum S that are staged besides the right sides.
    template <int S>
    static constexpr I32 kStagesBefore = F::kColumns > 0 ? staged_factors(F::kFactorScores, S) : 0;
    static constexpr abi::ScoredShape kShape{
        F::kRows, F::kScores, F::kDepth, F::kColumns, F::kSums, kStagesBefore<F::kSums>, F::kStages};
    static constexpr U32 kBytes = static_cast<U32>(abi::scored_stage(kShape, Config::kWarps));

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

    static __device__ __forceinline__ U8* sides() {
        U8* begin = scratch<Config>();
        return begin + (0 - shared_address(begin)) % abi::kLineGroupBytes;
    }
    static __device__ __forceinline__ U8* stages() { return sides() + abi::scored_side(kShape, F::kRows); }

    /// Of this warp: its first row in the task, and which blocks of a turn are its own.
    static __device__ __forceinline__ I32 first_row() { return threadIdx.x / 32 % (F::kRows / 16) * 16; }
    static __device__ __forceinline__ I32 turn_block() { return threadIdx.x / 32 / (F::kRows / 16); }
    /// Warps that are too few to share the rows once more only copy.
    static __device__ __forceinline__ bool adds() {
        return Config::kWarps % (F::kRows / 16) == 0 || turn_block() < kAcross;
    }

    /// Block d of score J's left side.
    template <int J>
    static __device__ __forceinline__ U32 left(I32 d) {
        return shared_address(sides()) + (J * kDeep + d) * F::kRows * abi::kLineBytes;
    }
    /// Block d of score J's right side, for all positions of the turn.
    template <int J>
    static __device__ __forceinline__ U32 right(U32 stage, I32 d) {
        return stage + (J * kDeep + d) * (kTurn * abi::kLineBytes);
    }
    /// Of the factor of sum S: panel p of its columns, for the positions of one block of the turn.
    template <int S>
    static __device__ __forceinline__ U32 factor(U32 stage, I32 block, I32 p) {
        if constexpr (kHasStage<S>) {
            const U32 all = right<F::kScores>(stage, 0);
            return all + (kStagesBefore<S> * kAcross + block) * (kFactorLines * abi::kLineBytes) +
                   p * kBlockBytes;
        } else {
            return right<kFactorScore<S>>(stage, p) + block * kBlockBytes;
        }
    }

    static __device__ __forceinline__ void stage_left(const F& f, const Task& task) {
        for_each_number<0, F::kScores>([&]<int J>(Number<J> j) {
#pragma unroll
            for (I32 d = 0; d < kDeep; ++d) {
                stage_block<Config, Element, F::kRows, kIsColumn<F::kLeftColumns, J>, F::kLeftGrain, false>(
                    left<J>(d), task.count(),
                    [&](I32) {
                        return Depth{0, F::kDepth - d * kBlock};
                    },
                    [&](I32 m, I32 k) { return f.left_at(j, task.b, task.rows.begin + m, d * kBlock + k); });
            }
        });
    }

    /// Starts the copies of a turn's positions from `c` on, if the task has any of them.
    static __device__ __forceinline__ void stage_turn(const F& f, const Task& task, I32 c, U32 to) {
        if (c < task.end) {
            for_each_number<0, F::kScores>([&]<int J>(Number<J> j) {
#pragma unroll
                for (I32 d = 0; d < kDeep; ++d) stage_right(f, task, j, d, c, right<J>(to, d));
            });
            for_each_number<0, F::kSums>([&]<int S>(Number<S> s) {
                if constexpr (kHasStage<S>) {
#pragma unroll
                    for (I32 block = 0; block < kAcross; ++block)
                        stage_factor(f, task, s, c + block * kBlock, c, factor<S>(to, block, 0));
                }
            });
        }
        commit_copies();
    }

private:
    /// Are all blocks of positions whole, and all pieces in memory? Products read sixteen values at a time: what lies beyond a
    /// multiple of that need not be there.
    static constexpr bool in_pieces(I32 grain, I32 extent) {
        return grain == kPieceElements<Element> && extent % 16 == 0 && F::kContext % kBlock == 0;
    }

    template <int J>
    static __device__ __forceinline__ void stage_right(const F& f, const Task& task, Number<J> j, I32 d,
                                                       I32 c, U32 to) {
        constexpr bool kColumn = kIsColumn<F::kRightColumns, J>;
        const auto at = [&](I32 row, I32 k) { return f.right_at(j, task.b, c + row, d * kBlock + k); };
        if constexpr (in_pieces(F::kRightGrain, F::kDepth)) {
#pragma unroll
            for (I32 block = 0; block < kTurn; block += kBlock) {
                if (c + block >= task.end) return;
                stage_some_pieces<Config, Element, kBlock, kColumn>(
                    to + block * abi::kLineBytes,
                    [&](const auto& piece) { return piece.k < F::kDepth - d * kBlock; },
                    [&](I32 row, I32 k) { return at(block + row, k); });
            }
        } else {
            const auto depth = [&](I32) { return Depth{0, F::kDepth - d * kBlock}; };
            stage_block<Config, Element, kTurn, kColumn, F::kRightGrain, false>(to, task.end - c, depth, at);
        }
    }

    /// The positions from `from` on; `inside` is one that the task has.
    template <int S>
    static __device__ __forceinline__ void stage_factor(const F& f, const Task& task, Number<S> s, I32 from,
                                                        I32 inside, U32 to) {
        constexpr bool kColumn = kIsColumn<F::kFactorColumns, S>;
        if constexpr (in_pieces(F::kFactorGrain, F::kColumns)) {
            if (from >= task.end) return;
            stage_some_pieces<Config, Element, kFactorLines, kColumn>(
                to, [](const auto& piece) { return piece.row < F::kColumns; },
                [&](I32 n, I32 k) { return f.factor_at(s, task.b, n, from + k); });
        } else {
            // A block that is outside is zero, wherever it is.
            const I32 first = from < task.end ? from : inside;
            const auto at = [&](I32 n, I32 k) { return f.factor_at(s, task.b, n, first + k); };
            const auto depth = [&](I32) { return Depth{0, task.end - from}; };
            stage_block<Config, Element, kFactorLines, kColumn, F::kFactorGrain, false>(to, F::kColumns,
                                                                                        depth, at);
        }
    }
};

}  // namespace stretto::device
