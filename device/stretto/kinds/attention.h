#pragma once

#include "stretto/kinds/attention_pass.h"

namespace stretto::device {

/// Attention with scalar products, for any element type and width. A warp takes the rows of its strips in ascending
/// order; lane l holds the elements d = l * per lane + v, and the products of a row are summed by a butterfly. An online
/// softmax is kept for each query row; the warps are merged in order.
/// F: what AttentionParts takes, and key(b, h, s, d), value(b, h, s, d).
template <class F>
class Attention {
    static constexpr int kPerLane = (F::kD + 31) / 32;
    static constexpr int kRows = static_cast<int>(abi::attention_rows(F::kGroup * F::kQ, false));
    static constexpr I32 kRowBytes = static_cast<I32>(abi::attention_query_bytes(F::kD, false));
    template <class Config>
    using Parts = AttentionParts<F, Config, kRows>;
    using Pass = AttentionPass<F>;

    struct Rows {
        float query[kRows][kPerLane];
        float sums[kRows][kPerLane];
        float maximum[kRows];
        float weight[kRows];
    };

public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 split = record.tile[3].begin;
        for_each_pass<F, Config, kRows>(record, [&](const Pass& pass) {
            Parts<Config>::stage(
                f, pass, [](I32 row, I32 d, float x) { staged<Config>(row)[d] = x; },
                [](I32 d, float x) { staged<Config>(kRows)[d] = x; },
                [](I32 d, float x) { staged<Config>(kRows + 1)[d] = x; });
            consumer_barrier<Config>();
            stamp<Config>(launch, record.task, &abi::TaskStamps::staged);
            publish<Config>(attend<Config>(f, pass, split));
            consumer_barrier<Config>();
            Parts<Config>::merge(f, pass, parts<Config>(), split);
        });
        return cursor;
    }

private:
    /// The query rows, then the fresh key and the fresh value.
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ float* staged(I32 row) {
        return reinterpret_cast<float*>(scratch<Config>() + row * kRowBytes);
    }
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ U8* parts() {
        return scratch<Config>() + (kRows + 2) * kRowBytes;
    }
    [[nodiscard]] static __device__ __forceinline__ I32 dimension(int v) {
        return static_cast<I32>(threadIdx.x % 32) * kPerLane + v;
    }
    [[nodiscard]] static __device__ __forceinline__ bool inside(int v) {
        return F::kD == 32 * kPerLane || dimension(v) < F::kD;
    }

    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ Rows attend(const F& f, const Pass& pass, I32 split) {
        Rows state;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            state.maximum[r] = -infinity<float>();
            state.weight[r] = 0;
#pragma unroll
            for (int v = 0; v < kPerLane; ++v) {
                state.query[r][v] = inside(v) ? staged<Config>(r)[dimension(v)] : 0;
                state.sums[r][v] = 0;
            }
        }
        const I32 end = Parts<Config>::context_end(f, pass.b);
        const I32 fresh = Parts<Config>::fresh_row(f, pass.b);
        for (I32 strip = threadIdx.x / 32;; strip += Config::kWarps) {
            const I32 begin = abi::attention_strip_begin(strip, split, F::kSplits);
            if (begin >= end) break;
#pragma unroll 2
            for (I32 s = begin; s < min(begin + abi::kAttentionStrip, end); ++s)
                add_row<Config>(f, state, pass, s, s == fresh);
        }
        return state;
    }

    template <class Config>
    static __device__ __forceinline__ void add_row(const F& f, Rows& state, const Pass& pass, I32 s,
                                                   bool fresh) {
        float key[kPerLane];
        float value[kPerLane];
#pragma unroll
        for (int v = 0; v < kPerLane; ++v) {
            const I32 d = dimension(v);
            key[v] = !inside(v)              ? 0
                     : F::kFreshKey && fresh ? staged<Config>(kRows)[d]
                                             : f.key(pass.b, pass.head, s, d);
            value[v] = !inside(v)                ? 0
                       : F::kFreshValue && fresh ? staged<Config>(kRows + 1)[d]
                                                 : f.value(pass.b, pass.head, s, d);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float dot = 0;
#pragma unroll
            for (int v = 0; v < kPerLane; ++v) dot = __fmaf_rn(state.query[r][v], key[v], dot);
            const float score = f.score(pass.b, pass.head_of(r), pass.query_of(r), s, butterfly_sum(dot));
            const float top = fmaxf(state.maximum[r], score);
            const float keep = exponential(state.maximum[r], scaled_shift(top));
            const float add = exponential(score, scaled_shift(top));
            state.maximum[r] = top;
            state.weight[r] = __fmaf_rn(state.weight[r], keep, add);
#pragma unroll
            for (int v = 0; v < kPerLane; ++v)
                state.sums[r][v] = __fmaf_rn(add, value[v], state.sums[r][v] * keep);
        }
    }

    template <class Config>
    static __device__ __forceinline__ void publish(const Rows& state) {
        const I32 warp = static_cast<I32>(threadIdx.x / 32);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float* sums = Parts<Config>::sums(parts<Config>(), warp, r);
#pragma unroll
            for (int v = 0; v < kPerLane; ++v) {
                if (inside(v)) sums[dimension(v)] = state.sums[r][v];
            }
            if (threadIdx.x % 32 == 0) {
                Parts<Config>::maxima(parts<Config>(), r)[warp] = state.maximum[r];
                Parts<Config>::weights(parts<Config>(), r)[warp] = state.weight[r];
            }
        }
    }
};

}  // namespace stretto::device
