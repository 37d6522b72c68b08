#pragma once

#include "stretto/kinds/scored_stages.h"
#include "stretto/tile/pairs.h"
#include "stretto/tile/wgmma.h"

namespace stretto::device {

/// One sum's weights, or one score, of a warp's 16 rows and a block's positions, as fragments (tile/warp_tile.h).
using ScoredWeights = float[abi::kScoredBlock / 8][4];

/// The fragment of A that has the weights of 16 positions from `k` on.
template <class Element>
__device__ __forceinline__ uint4 left_fragment(const ScoredWeights& weights, I32 k) {
    const float(&near)[4] = weights[k / 8];
    const float(&far)[4] = weights[k / 8 + 1];
    return make_uint4(packed<Element>(near[0], near[1]), packed<Element>(near[2], near[3]),
                      packed<Element>(far[0], far[1]), packed<Element>(far[2], far[3]));
}

/// The products of Scored<F>, each warp's by mma.sync (sm_80 and later).
template <class F, class Config>
struct WarpScoredProducts {
    using Stages = ScoredStages<F, Config>;
    using Element = typename F::Element;
    static constexpr I32 kBlock = abi::kScoredBlock;
    static constexpr bool kRunAhead = false;             ///< do products run beside what follows their start?
    static constexpr I32 kWide = (F::kColumns + 7) / 8;  ///< fragments of a row of one sum

    static __device__ __forceinline__ void publish_copies() {}
    /// Sums are left alone between these two.
    template <int N>
    __device__ __forceinline__ void begin(float (&)[N][4]) const {}
    template <int N>
    __device__ __forceinline__ void finish(float (&)[N][4]) const {}

    /// Adds score J of the warp's block of the turn staged at `stage` to zeros.
    template <int J>
    __device__ __forceinline__ void add_score(U32 stage, ScoredWeights& scores) const {
        constexpr bool kLeftColumn = Stages::template kIsColumn<F::kLeftColumns, J>;
        constexpr bool kRightColumn = Stages::template kIsColumn<F::kRightColumns, J>;
#pragma unroll
        for (I32 e = 0; e < F::kDepth; e += 16) {
            const U32 left = Stages::template left<J>(e / kBlock);
            const U32 right = Stages::template right<J>(stage, e / kBlock);
            const uint4 a = load_matrices<kLeftColumn>(
                matrix_row<Element, kLeftColumn, false>(left, Stages::first_row(), e % kBlock));
#pragma unroll
            for (I32 j = 0; j < kBlock / 8; j += 2) {
                const I32 from = Stages::turn_block() * kBlock + j * 8;
                const uint4 b = load_matrices<kRightColumn>(
                    matrix_row<Element, kRightColumn, true>(right, from, e % kBlock));
                multiply_add_tile<Element>(scores[j], a, b.x, b.y);
                multiply_add_tile<Element>(scores[j + 1], a, b.z, b.w);
            }
        }
    }

    /// Adds the products of 16 weights from `k` on with the factor of sum S.
    template <int S, int N>
    __device__ __forceinline__ void add_factor(U32 stage, const uint4& weights, I32 k,
                                               float (&sums)[N][4]) const {
        constexpr bool kColumn = Stages::template kIsColumn<F::kFactorColumns, S>;
#pragma unroll
        for (I32 n = 0; n < kWide; n += 2) {
            const U32 panel = Stages::template factor<S>(stage, Stages::turn_block(), n * 8 / kBlock);
            const uint4 b =
                load_matrices<kColumn>(matrix_row<Element, kColumn, true>(panel, n * 8 % kBlock, k));
            multiply_add_tile<Element>(sums[n], weights, b.x, b.y);
            if (n + 1 < kWide) multiply_add_tile<Element>(sums[n + 1], weights, b.z, b.w);
        }
    }
};

/// The same by groups of four warps, with 64 rows each, by wgmma (sm_90a). Weights go from registers into the second product,
/// which runs while the next are computed.
template <class F, class Config>
class GroupScoredProducts {
    using Stages = ScoredStages<F, Config>;
    using Element = typename F::Element;
    static constexpr I32 kBlock = abi::kScoredBlock;
    static constexpr I32 kGroupsDown = F::kRows / 64;

public:
    static constexpr bool kFits = Config::kWarps % (F::kRows / 16) == 0 && F::kRows % 64 == 0;
    static constexpr bool kRunAhead = true;
    static constexpr I32 kWide = static_cast<I32>(abi::round_up(F::kColumns, 16)) / 8;

    static __device__ __forceinline__ void publish_copies() { publish_to_products(); }
    template <int N>
    __device__ __forceinline__ void begin(float (&sums)[N][4]) const {
        hold(sums);
        open_products();
    }
    template <int N>
    __device__ __forceinline__ void finish(float (&sums)[N][4]) const {
        wait_for_products<0>();
        hold(sums);
    }

    template <int J>
    __device__ __forceinline__ void add_score(U32 stage, ScoredWeights& scores) const {
        constexpr bool kLeftColumn = Stages::template kIsColumn<F::kLeftColumns, J>;
        constexpr bool kRightColumn = Stages::template kIsColumn<F::kRightColumns, J>;
        for_each_number<0, (F::kDepth + 15) / 16>([&]<int K>(Number<K>) {
            constexpr I32 e = K * 16;
            const U32 left =
                Stages::template left<J>(e / kBlock) + group_ % kGroupsDown * Stages::kBlockBytes;
            const U32 right = Stages::template right<J>(stage, e / kBlock) + block() * Stages::kBlockBytes;
            multiply_group<Element, kBlock, kLeftColumn, kRightColumn, (K > 0)>(
                scores, at<kLeftColumn>(left, e % kBlock), at<kRightColumn>(right, e % kBlock));
        });
        close_products();
    }

    template <int S, int N>
    __device__ __forceinline__ void add_factor(U32 stage, const uint4& weights, I32 k,
                                               float (&sums)[N][4]) const {
        constexpr bool kColumn = Stages::template kIsColumn<F::kFactorColumns, S>;
        open_products();
        for_each_number<0, (kWide * 8 + kBlock - 1) / kBlock>([&]<int P>(Number<P>) {
            constexpr I32 kRest = kWide * 8 - P * kBlock;
            multiply_held < Element, kRest<kBlock ? kRest : kBlock, kColumn>(
                                         sums + P * (kBlock / 8), weights,
                                         at<kColumn>(Stages::template factor<S>(stage, block(), P), k));
        });
        close_products();
    }

private:
    /// The descriptor of a block from value `k` of its depth on.
    template <bool Column>
    static __device__ __forceinline__ U32 at(U32 block, I32 k) {
        return block_descriptor<Column>(block) + k * (Column ? abi::kLineBytes : 2) / 16;
    }
    [[nodiscard]] __device__ __forceinline__ I32 block() const { return group_ / kGroupsDown; }

    /// The same for all lanes, and known to be, so that descriptors are made once for a warp.
    I32 group_ = __shfl_sync(~0u, static_cast<I32>(threadIdx.x / 128), 0);
};

template <class F, class Config>
struct ScoredProductsOf {
    using Portable = WarpScoredProducts<F, Config>;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using Grouped = GroupScoredProducts<F, Config>;
    using Type = typename Selected<Grouped::kFits, Grouped, Portable>::Type;
#else
    using Type = Portable;
#endif
};

}  // namespace stretto::device
