#pragma once

#include "stretto/tile/lines.h"

namespace stretto::device {

/// The results of one warp of a tile of Rows x Columns of F32 products, which tensor cores would round. A warp has 32 rows;
/// where the tile has fewer results than all warps could take, several share the values of k. Fragments as for WarpTile.
template <class Config, class T, I32 Rows, I32 Columns, bool LeftColumn, bool WeightColumn>
class ScalarTile {
    static constexpr I32 kRows = 32;
    static constexpr I32 kWarpsDown = Rows / kRows;
    static constexpr I32 kMostAcross = Config::kWarps / kWarpsDown;
    static constexpr I32 kWarpsAcross = kMostAcross < Columns / 32 ? kMostAcross : Columns / 32;
    static constexpr I32 kColumns = Columns / kWarpsAcross;

public:
    static constexpr int kDown = kRows / 16;
    static constexpr int kAcross = kColumns / 8;
    static constexpr int kRunning = 0;
    static constexpr int kShares = Config::kWarps / (kWarpsDown * kWarpsAcross);
    static_assert((Config::kWarps & (Config::kWarps - 1)) == 0 && kShares <= kLineElements<T> / 4);
    static_assert(Rows % kRows == 0 && Columns % 32 == 0 && kShares >= 1);
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
        const I32 lane = static_cast<I32>(threadIdx.x % 32);
        const I32 row = first_row() + lane / 4;
        const I32 column = first_column() + lane % 4 * 2;
#pragma unroll 2
        for (I32 group = share(); group < kLineElements<T> / kDepth; group += kShares) {
            float a[kDown * 2][kDepth];
#pragma unroll
            for (int i = 0; i < kDown * 2; ++i) read<LeftColumn>(a[i], left, row + i * 8, group);
#pragma unroll
            for (int w = 0; w < Weights; ++w) {
#pragma unroll
                for (int j = 0; j < kAcross * 2; ++j) {
                    float b[kDepth];
                    read<WeightColumn>(b, weights + w * Columns * abi::kLineBytes, column + j / 2 * 8 + j % 2,
                                       group);
#pragma unroll
                    for (int i = 0; i < kDown * 2; ++i) {
                        float& sum = sums[w][i / 2][j / 2][i % 2 * 2 + j % 2];
#pragma unroll
                        for (int k = 0; k < kDepth; ++k) sum = fmaf(a[i][k], b[k], sum);
                    }
                }
            }
        }
    }

private:
    static constexpr int kDepth = 4;  ///< values of k in a piece of 16 bytes

    static __device__ __forceinline__ I32 warp() { return static_cast<I32>(threadIdx.x / 32); }

    /// The values of k of one group in a row of a block.
    template <bool Column>
    static __device__ __forceinline__ void read(float (&values)[kDepth], U32 block, I32 row, I32 group) {
        if constexpr (Column) {
            constexpr I32 kPanel = kLineElements<T>;
            const I32 line = row / kPanel * kPanel + group * kDepth;
#pragma unroll
            for (int k = 0; k < kDepth; ++k) {
                const U32 at = piece_address(block, line + k, row % kPanel / 4) + row % 4 * 4;
                asm volatile("ld.shared.f32 %0, [%1];" : "=f"(values[k]) : "r"(at) : "memory");
            }
        } else {
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
                         : "r"(piece_address(block, row, group))
                         : "memory");
        }
    }
};

}  // namespace stretto::device
