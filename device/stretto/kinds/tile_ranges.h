#pragma once

#include "stretto/kinds/left_side.h"
#include "stretto/tile/lines.h"

namespace stretto::device {

/// What k counts for the rows that this thread stages, for any row of the task, and for all that a whole tile has. F: as for
/// MatMulTiles.
template <class F, class Config>
struct TileRanges {
    using Element = typename F::Left;
    static constexpr I32 kDepth = kLineElements<Element> * F::kRowLines;
    static constexpr bool kSixteenBytes =
        F::kLeftGrain * sizeof(Element) == 16 && F::kWeightGrain * sizeof(Element) == 16;
    /// Rows that differ in what counts are left rows of k, so that a copy of 16 bytes is of one.
    static constexpr bool kHasRowsByBlock = F::kRaggedRows && !F::kLeftColumn && kSixteenBytes;

    /// Blocks of k that a task takes.
    struct Blocks {
        I32 begin = 0;
        I32 end = (F::kK + kDepth - 1) / kDepth;
    };

    static constexpr I32 kRounds = F::kRagged ? kStageRounds<Config, F::kTileRows> : 1;
    Depth rows[kRounds];
    Depth all = {0, F::kK};
    Depth whole = {0, 0};   ///< nothing for a tile that is cut off
    bool by_block = false;  ///< of a tile that is not cut off: each row begins and ends where blocks do

    __device__ __forceinline__ TileRanges(const F& f, I32 b, const MatMulTile<F>& tile) {
        if constexpr (F::kRagged) {
            const auto of = [&](I32 m) {
                const I32 last = min(m, tile.rows() - 1);
                return Depth{f.begin(b, tile.m.begin + last), f.end(b, tile.m.begin + last)};
            };
#pragma unroll
            for (I32 round = 0; round < kRounds; ++round) {
                rows[round] = of(StagedPiece<Config, Element, F::kTileRows, F::kLeftColumn>(round).row);
            }
            all = F::kRaggedRows ? of_any(of) : of(0);
            if (is_whole(tile)) whole = F::kRaggedRows ? of_each(of) : all;
            if (is_whole(tile) && kHasRowsByBlock) by_block = is_each_by_block(of);
        } else {
            rows[0] = all;
            if (is_whole(tile)) whole = all;
        }
    }

    [[nodiscard]] __device__ __forceinline__ Blocks blocks() const {
        if constexpr (!F::kRagged) {
            // Without a loop the compiler orders a single block's products itself, which it says it cannot (ptxas, C7520).
            Blocks blocks;
            asm("" : "+r"(blocks.end));
            return blocks;
        }
        if (all.begin >= all.end) return {0, 0};
        return {all.begin / kDepth, (all.end + kDepth - 1) / kDepth};
    }

    /// Does a row of the block count as a whole, or not at all? The row is this thread's of a round.
    [[nodiscard]] __device__ __forceinline__ bool has_row(I32 block, I32 round) const {
        return block * kDepth >= rows[round].begin && (block + 1) * kDepth <= rows[round].end;
    }

    /// Does every element of a block count, in copies of 16 bytes?
    [[nodiscard]] __device__ __forceinline__ bool has_whole(I32 block) const {
        return kSixteenBytes && block * kDepth >= whole.begin && (block + 1) * kDepth <= whole.end;
    }

private:
    static __device__ __forceinline__ bool is_whole(const MatMulTile<F>& tile) {
        return tile.rows() == F::kTileRows && tile.columns() == F::kTileColumns;
    }

    template <class Of>
    static __device__ __forceinline__ Depth of_each(const Of& of) {
        Depth each{0, F::kK};
#pragma unroll
        for (I32 m = threadIdx.x % 32; m < F::kTileRows; m += 32) {
            const Depth row = of(m);
            each = {max(each.begin, row.begin), min(each.end, row.end)};
        }
        return {__reduce_max_sync(0xffffffffu, each.begin), __reduce_min_sync(0xffffffffu, each.end)};
    }

    template <class Of>
    static __device__ __forceinline__ bool is_each_by_block(const Of& of) {
        bool each = true;
#pragma unroll
        for (I32 m = threadIdx.x % 32; m < F::kTileRows; m += 32) {
            const Depth row = of(m);
            each &= row.begin % kDepth == 0 && row.end % kDepth == 0;
        }
        return __all_sync(0xffffffffu, each) != 0;
    }

    template <class Of>
    static __device__ __forceinline__ Depth of_any(const Of& of) {
        Depth any{F::kK, 0};
#pragma unroll
        for (I32 m = threadIdx.x % 32; m < F::kTileRows; m += 32) {
            const Depth row = of(m);
            if (row.begin >= row.end) continue;
            any = {min(any.begin, row.begin), max(any.end, row.end)};
        }
        return {__reduce_min_sync(0xffffffffu, any.begin), __reduce_max_sync(0xffffffffu, any.end)};
    }
};

}  // namespace stretto::device
