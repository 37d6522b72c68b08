#pragma once

#include "stretto/tile/lines.h"
#include "stretto/tile/wgmma.h"

namespace stretto::device {

/// The results of one warp of a tile of Rows x Columns, multiplied by groups of four warps with wgmma (sm_90a). A group has 64
/// rows; fragments as for WarpTile, one down.
template <class Config, class T, I32 Rows, I32 Columns, bool LeftColumn, bool WeightColumn>
class GroupTile {
    static constexpr I32 kGroups = Config::kWarps / 4;
    static constexpr I32 kGroupsDown = kGroups < Rows / 64 ? kGroups : Rows / 64;
    static constexpr I32 kGroupsAcross = kGroups / kGroupsDown;
    static constexpr I32 kColumns = Columns / kGroupsAcross;

public:
    /// An instruction's columns lie in whole panels, or in a part of one.
    static constexpr bool kInPanels =
        !WeightColumn || kColumns % kLineElements<T> == 0 || kLineElements<T> % kColumns == 0;
    static constexpr bool kFits = Config::kWarps % 4 == 0 && kGroupsDown * 64 == Rows &&
                                  kGroupsAcross * kGroupsDown == kGroups && kColumns % 32 == 0 && kInPanels;
    static constexpr int kDown = 1;
    static constexpr int kAcross = kColumns / 8;
    static constexpr int kRunning = 1;
    static constexpr int kShares = 1;
    using Sums = float[kDown][kAcross][4];

    [[nodiscard]] static __device__ __forceinline__ I32 share() { return 0; }
    [[nodiscard]] static __device__ __forceinline__ I32 first_row() {
        return group() % kGroupsDown * 64 + static_cast<I32>(threadIdx.x / 32 % 4) * 16;
    }
    [[nodiscard]] static __device__ __forceinline__ I32 first_column() {
        return group() / kGroupsDown * kColumns;
    }

    static __device__ __forceinline__ void publish_copies() { publish_to_products(); }
    static __device__ __forceinline__ void finish() { wait_for_products<0>(); }

    /// Starts sums += the products of the left block and each weight's, which follow each other, and waits for the products
    /// of the blocks before.
    template <int Weights>
    static __device__ __forceinline__ void multiply(Sums (&sums)[Weights], U32 left, U32 weights) {
        const I32 from = first_column();
        const U32 a = block_descriptor<LeftColumn>(left + group() % kGroupsDown * 64 * abi::kLineBytes);
        const U32 b = block_descriptor<WeightColumn>(
            weights + (WeightColumn ? from / kPanel * kPanel * abi::kLineBytes + from % kPanel * 2
                                    : from * abi::kLineBytes));
        open_products();
#pragma unroll
        for (int w = 0; w < Weights; ++w) {
#pragma unroll
            for (I32 k = 0; k < kPanel; k += 16) {
                constexpr I32 kLeftStep = LeftColumn ? abi::kLineBytes : 2;
                constexpr I32 kWeightStep = WeightColumn ? abi::kLineBytes : 2;
                multiply_columns<0>(sums[w][0], a + k * kLeftStep / 16,
                                    b + (w * Columns * abi::kLineBytes + k * kWeightStep) / 16);
            }
        }
        close_products();
        wait_for_products<1>();
    }

private:
    static constexpr I32 kPanel = kLineElements<T>;

    /// The same for all lanes, and known to be, so that descriptors are made once for a warp.
    static __device__ __forceinline__ I32 group() {
        return __shfl_sync(0xffffffffu, static_cast<I32>(threadIdx.x / 128), 0);
    }

    /// Columns from `From` on, in instructions as wide as they can be.
    template <I32 From>
    static __device__ __forceinline__ void multiply_columns(float (&sums)[kAcross][4], U32 a, U32 b) {
        if constexpr (From < kColumns) {
            constexpr I32 kLeft = kColumns - From;
            constexpr I32 kWide = kLeft >= 256   ? 256
                                  : kLeft >= 192 ? 192
                                  : kLeft >= 128 ? 128
                                  : kLeft >= 64  ? 64
                                                 : 32;
            multiply_group<T, kWide, LeftColumn, WeightColumn>(sums + From / 8, a,
                                                               b + From * abi::kLineBytes / 16);
            multiply_columns<From + kWide>(sums, a, b);
        }
    }
};

}  // namespace stretto::device
