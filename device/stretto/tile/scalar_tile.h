#pragma once

#include "stretto/tile/lines.h"

namespace stretto::device {

/// The results of one warp of a tile of Rows x Columns of F32 products, which tensor cores would round. A warp has up to 32
/// rows; where the tile has fewer results than all warps could take, several share the values of k. Fragments as for
/// WarpTile. Rows of a block have RowLines lines. Where ByBlock, the products of a block are added up by themselves.
template <class Config, class T, I32 Rows, I32 Columns, bool LeftColumn, bool WeightColumn, I32 RowLines,
          bool ByBlock>
class ScalarTile {
    static constexpr I32 kRows = Rows < 32 ? Rows : 32;
    static constexpr I32 kWarpsDown = Rows / kRows;
    static constexpr I32 kMostAcross = Config::kWarps / kWarpsDown;
    static constexpr I32 kGoodAcross = Columns < 32 ? 1 : Columns / 32;
    static constexpr I32 kWarpsAcross = kMostAcross < kGoodAcross ? kMostAcross : kGoodAcross;
    static constexpr I32 kColumns = Columns / kWarpsAcross;

public:
    static constexpr int kDown = kRows / 16;
    static constexpr int kAcross = kColumns / 8;
    static constexpr int kRunning = 0;
    static constexpr int kShares = Config::kWarps / (kWarpsDown * kWarpsAcross);
    static_assert((Config::kWarps & (Config::kWarps - 1)) == 0 && kShares <= kLineElements<T> / 4);
    static_assert(Config::kWarps % (kWarpsDown * kWarpsAcross) == 0);
    static_assert(kRows % 16 == 0 && Rows % kRows == 0 && kColumns % 8 == 0 && kShares >= 1);
    using Sums = float[kDown][kAcross][4];

    [[nodiscard]] static __device__ __forceinline__ I32 share() {
        return warp() / (kWarpsDown * kWarpsAcross);
    }
    [[nodiscard]] static __device__ __forceinline__ I32 first_row() { return warp() % kWarpsDown * kRows; }
    [[nodiscard]] static __device__ __forceinline__ I32 first_column() {
        return warp() / kWarpsDown % kWarpsAcross * kColumns;
    }

    static __device__ __forceinline__ void publish_copies() {}
    static __device__ __forceinline__ void finish() {}

    /// sums += the products of the left block and each weight's over this warp's share: every kShares-th group of four k.
    template <int Weights>
    static __device__ __forceinline__ void multiply(Sums (&sums)[Weights], U32 left, U32 weights) {
        if constexpr (ByBlock) {
            Sums of_block[Weights] = {};
            add_products(of_block, left, weights);
            add(sums, of_block);
        } else {
            add_products(sums, left, weights);
        }
    }

private:
    static constexpr int kDepth = 4;  ///< values of k in a piece of 16 bytes

    static __device__ __forceinline__ I32 warp() { return static_cast<I32>(threadIdx.x / 32); }

    template <int Weights>
    static __device__ __forceinline__ void add(Sums (&sums)[Weights], const Sums (&more)[Weights]) {
#pragma unroll
        for (int w = 0; w < Weights; ++w) {
#pragma unroll
            for (int i = 0; i < kDown; ++i) {
#pragma unroll
                for (int j = 0; j < kAcross; ++j) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) sums[w][i][j][e] += more[w][i][j][e];
                }
            }
        }
    }

    template <int Weights>
    static __device__ __forceinline__ void add_products(Sums (&sums)[Weights], U32 left, U32 weights) {
        const I32 lane = static_cast<I32>(threadIdx.x % 32);
        const I32 row = first_row() + lane / 4;
        const I32 column = first_column() + lane % 4 * 2;
        constexpr int kPieces = kLineElements<T> / kDepth / kShares;  // of each line
        constexpr int kUnrolled = kDown * kAcross <= 4 ? 4 : 2;
#pragma unroll kUnrolled
        for (I32 own = 0; own < RowLines * kPieces; ++own) {
            const I32 line = own / kPieces;
            const I32 piece = own % kPieces * kShares + share();
            float a[kDown * 2][kDepth];
#pragma unroll
            for (int i = 0; i < kDown * 2; ++i) read<LeftColumn, Rows>(a[i], left, row + i * 8, line, piece);
#pragma unroll
            for (int w = 0; w < Weights; ++w) {
#pragma unroll
                for (int j = 0; j < kAcross; ++j) {
                    float b[2][kDepth];
                    read_pair(b, weights + w * Columns * RowLines * abi::kLineBytes, column + j * 8, line,
                              piece);
#pragma unroll
                    for (int i = 0; i < kDown * 2; ++i) {
#pragma unroll
                        for (int second = 0; second < 2; ++second) {
                            float& sum = sums[w][i / 2][j][i % 2 * 2 + second];
#pragma unroll
                            for (int k = 0; k < kDepth; ++k) sum = fmaf(a[i][k], b[second][k], sum);
                        }
                    }
                }
            }
        }
    }

    /// The address of a row's value k of a group of a column operand of so many rows.
    template <I32 All>
    static __device__ __forceinline__ U32 column_address(U32 block, I32 row, I32 line, I32 group, int k) {
        constexpr I32 kPanel = kLineRows<T, All>;
        constexpr I32 kInLine = kLineDepth<T, All>;
        constexpr I32 kPanelLines = RowLines * kLineElements<T> / kInLine;
        const I32 at = row / kPanel * kPanelLines + line * (kLineElements<T> / kInLine) +
                       group * (kDepth / kInLine) + k / kInLine;
        return piece_address(block, at, k % kInLine * (kPanel / 4) + row % kPanel / 4) + row % 4 * 4;
    }

    /// The values of k of one group, a piece of a line, in a row of a block of so many rows.
    template <bool Column, I32 All>
    static __device__ __forceinline__ void read(float (&values)[kDepth], U32 block, I32 row, I32 line,
                                                I32 group) {
        if constexpr (Column) {
#pragma unroll
            for (int k = 0; k < kDepth; ++k) {
                asm volatile("ld.shared.f32 %0, [%1];"
                             : "=f"(values[k])
                             : "r"(column_address<All>(block, row, line, group, k))
                             : "memory");
            }
        } else {
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
                         : "r"(piece_address(block, line * All + row, group))
                         : "memory");
        }
    }

    /// Those of an even row of a weight and the next.
    static __device__ __forceinline__ void read_pair(float (&values)[2][kDepth], U32 block, I32 row, I32 line,
                                                     I32 group) {
        if constexpr (WeightColumn) {
#pragma unroll
            for (int k = 0; k < kDepth; ++k) {
                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                             : "=f"(values[0][k]), "=f"(values[1][k])
                             : "r"(column_address<Columns>(block, row, line, group, k))
                             : "memory");
            }
        } else {
            read<false, Columns>(values[0], block, row, line, group);
            read<false, Columns>(values[1], block, row + 1, line, group);
        }
    }
};

}  // namespace stretto::device
