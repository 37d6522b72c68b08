#pragma once

#include "stretto/tile/lines.h"
#include "stretto/tile/mma.h"

namespace stretto::device {

/// Four 8 x 8 matrices of 16-bit elements from shared memory: lane l gives the address of row l % 8 of matrix l / 8, and gets
/// of each the elements (l / 4, 2 (l % 4)) and the next; of the transposed matrices with `Transposed` (PTX ISA, ldmatrix).
template <bool Transposed>
__device__ __forceinline__ uint4 load_matrices(U32 address) {
    uint4 m;
    if constexpr (Transposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                     : "r"(address)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                     : "r"(address)
                     : "memory");
    }
    return m;
}

/// Where this lane's row of the four matrices of 16 rows x 16 k at (row, k) is. The matrices come by k within rows for `KFirst`
/// (the fragment of B), else by rows within k (that of A).
template <class T, bool Column, bool KFirst>
__device__ __forceinline__ U32 matrix_row(U32 block, I32 row, I32 k) {
    const I32 lane = static_cast<I32>(threadIdx.x % 32);
    const I32 matrix = lane / 8;
    row += (KFirst ? matrix / 2 : matrix % 2) * 8;
    k += (KFirst ? matrix % 2 : matrix / 2) * 8;
    if constexpr (Column) {
        constexpr I32 kPanel = kLineElements<T>;
        return piece_address(block, row / kPanel * kPanel + k + lane % 8, row % kPanel / 8);
    } else {
        return piece_address(block, row + lane % 8, k / 8);
    }
}

/// The results of one warp of a tile of Rows x Columns, multiplied by mma.sync (sm_80 and later). Fragment (i, j) has 16 x 8
/// of them: lane l holds columns 2 (l % 4) and the next of row l / 4 in its first two values, of row l / 4 + 8 in the others.
template <class Config, class T, I32 Rows, I32 Columns, bool LeftColumn, bool WeightColumn>
class WarpTile {
    static constexpr I32 kWarpsDown = Config::kWarps >= 8 && Rows >= 128 ? 2 : 1;
    static constexpr I32 kWarpsAcross = Config::kWarps / kWarpsDown;
    static constexpr I32 kRows = Rows / kWarpsDown;
    static constexpr I32 kColumns = Columns / kWarpsAcross;

public:
    static constexpr int kDown = kRows / 16;
    static constexpr int kAcross = kColumns / 8;
    /// Blocks of k whose products may still run when `multiply` returns.
    static constexpr int kRunning = 0;
    /// Warps that share the values of k of the same results: their sums are added in the order of share().
    static constexpr int kShares = 1;
    static_assert(kRows % 16 == 0 && kColumns % 8 == 0);
    using Sums = float[kDown][kAcross][4];

    [[nodiscard]] static __device__ __forceinline__ I32 share() { return 0; }
    /// Where this warp's results begin.
    [[nodiscard]] static __device__ __forceinline__ I32 first_row() { return warp() % kWarpsDown * kRows; }
    [[nodiscard]] static __device__ __forceinline__ I32 first_column() {
        return warp() / kWarpsDown * kColumns;
    }

    /// What other threads copied may be read after the next barrier.
    static __device__ __forceinline__ void publish_copies() {}
    static __device__ __forceinline__ void finish() {}

    /// sums += the products of the left block and each weight's, which follow each other.
    template <int Weights>
    static __device__ __forceinline__ void multiply(Sums (&sums)[Weights], U32 left, U32 weights) {
#pragma unroll
        for (int w = 0; w < Weights; ++w) multiply(sums[w], left, weights + w * Columns * abi::kLineBytes);
    }

private:
    static __device__ __forceinline__ void multiply(Sums& sums, U32 left, U32 weight) {
#pragma unroll
        for (I32 k = 0; k < kLineElements<T>; k += 16) {
            uint4 a[kDown];
#pragma unroll
            for (int i = 0; i < kDown; ++i) {
                a[i] = load_matrices<LeftColumn>(
                    matrix_row<T, LeftColumn, false>(left, first_row() + i * 16, k));
            }
            // Two fragments of columns in one load; of an odd number the last alone.
#pragma unroll
            for (int j = 0; j < kAcross; j += 2) {
                const I32 from = first_column() + j * 8;
                const uint4 b =
                    load_matrices<WeightColumn>(matrix_row<T, WeightColumn, true>(weight, from, k));
#pragma unroll
                for (int i = 0; i < kDown; ++i) {
                    multiply_add_tile<T>(sums[i][j], a[i], b.x, b.y);
                    if (j + 1 < kAcross) multiply_add_tile<T>(sums[i][j + 1], a[i], b.z, b.w);
                }
            }
        }
    }

    static __device__ __forceinline__ I32 warp() { return static_cast<I32>(threadIdx.x / 32); }
};

}  // namespace stretto::device
