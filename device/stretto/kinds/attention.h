#pragma once

#include "stretto/operands.h"

namespace stretto::device {

/// One split of split-KV attention. Warp w takes the context rows s with s % kBlock % warps == w of its split's
/// blocks, in ascending order, and keeps an online softmax for each query row; the warps are merged in order.
/// A query row is (head in the group, q).
/// F: kD, kGroup, kQ, kContext, kSplits, kBlock, kHasLength, query(b, h, q, d), key(b, h, s, d), value(b, h, s, d),
/// score(b, h, q, s, dot) (scale and bias applied; -inf where masked), length(b), store(split, b, h, q, d, value).
template <class F>
class Attention {
    static constexpr int kPerLane = (F::kD + 31) / 32;
    static constexpr int kRows = static_cast<int>(abi::attention_rows(F::kGroup * F::kQ));
    static constexpr int kPartial = F::kD + 2;              ///< sums, maximum, weight
    static constexpr I32 kStride = F::kSplits * F::kBlock;  ///< from a block of a split to its next

    /// A warp's context rows of one block.
    template <int Rows>
    struct Context {
        float keys[Rows][kPerLane];
        float values[Rows][kPerLane];
    };

    struct Rows {
        float query[kRows][kPerLane];
        float sums[kRows][kPerLane];
        float maximum[kRows];
        float weight[kRows];
        I32 head[kRows];
        I32 q[kRows];
    };

public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 split = record.tile[3].begin;
        const abi::Range q = record.tile[2];
        const I32 rows = F::kGroup * (q.end - q.begin);
        for (I32 b = record.tile[0].begin; b < record.tile[0].end; ++b) {
            for (I32 key_head = record.tile[1].begin; key_head < record.tile[1].end; ++key_head) {
                for (I32 first = 0; first < rows; first += kRows) {
                    Rows state = start(f, b, key_head * F::kGroup, q, first, rows);
                    attend<Config>(f, state, b, key_head * F::kGroup, split);
                    publish<Config>(state);
                    consumer_barrier<Config>();
                    merge<Config>(f, state, split, b, min(kRows, rows - first));
                    consumer_barrier<Config>();
                }
            }
        }
        return cursor;
    }

private:
    [[nodiscard]] static __device__ __forceinline__ I32 context_end(const F& f, I32 b) {
        if constexpr (F::kHasLength) {
            const I64 length = f.length(b);
            return length < 0 ? 0 : length < F::kContext ? static_cast<I32>(length) : F::kContext;
        }
        return F::kContext;
    }
    [[nodiscard]] static __device__ __forceinline__ I32 dimension(int v) {
        return static_cast<I32>(threadIdx.x % 32) * kPerLane + v;
    }
    [[nodiscard]] static __device__ __forceinline__ bool inside(int v) {
        return F::kD == 32 * kPerLane || dimension(v) < F::kD;
    }

    /// Rows beyond the last repeat it; their result is dropped by `merge`.
    [[nodiscard]] static __device__ __forceinline__ Rows start(const F& f, I32 b, I32 head, abi::Range q,
                                                               I32 first, I32 rows) {
        Rows state;
        const I32 width = q.end - q.begin;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const I32 row = min(first + r, rows - 1);
            state.head[r] = head + row / width;
            state.q[r] = q.begin + row % width;
            state.maximum[r] = -infinity<float>();
            state.weight[r] = 0;
#pragma unroll
            for (int v = 0; v < kPerLane; ++v) {
                state.query[r][v] = inside(v) ? f.query(b, state.head[r], state.q[r], dimension(v)) : 0;
                state.sums[r][v] = 0;
            }
        }
        return state;
    }

    /// Each block is read while the one before it is computed; the first does not even wait for the length.
    template <class Config>
    static __device__ __forceinline__ void attend(const F& f, Rows& state, I32 b, I32 head, I32 split) {
        I32 block = split * F::kBlock;
        auto next = load_block<Config>(f, b, head, block);
        const I32 end = context_end(f, b);
        for (; block < end; block += kStride) {
            const auto now = next;
            if (block + kStride < end) next = load_block<Config>(f, b, head, block + kStride);
#pragma unroll
            for (int i = 0; i < kBatch<Config>; ++i) {
                const I32 s = row_of<Config>(block, i);
                if (!is_mine<Config>(i) || s >= end) break;
#pragma unroll
                for (int r = 0; r < kRows; ++r) add_row(f, state, r, b, s, now.keys[i], now.values[i]);
            }
        }
    }

    template <class Config>
    static constexpr int kBatch = (F::kBlock + Config::kWarps - 1) / Config::kWarps;

    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ Context<kBatch<Config>> load_block(const F& f, I32 b,
                                                                                       I32 head, I32 block) {
        Context<kBatch<Config>> rows;
#pragma unroll
        for (int i = 0; i < kBatch<Config>; ++i) {
            const I32 s = row_of<Config>(block, i);
#pragma unroll
            for (int v = 0; v < kPerLane; ++v) {
                const bool read = is_mine<Config>(i) && s < F::kContext && inside(v);
                rows.keys[i][v] = read ? f.key(b, head, s, dimension(v)) : 0;
                rows.values[i][v] = read ? f.value(b, head, s, dimension(v)) : 0;
            }
        }
        return rows;
    }
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ I32 row_of(I32 block, int i) {
        return block + i * Config::kWarps + static_cast<I32>(threadIdx.x / 32);
    }
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ bool is_mine(int i) {
        return F::kBlock % Config::kWarps == 0 || row_of<Config>(0, i) < F::kBlock;
    }

    static __device__ __forceinline__ void add_row(const F& f, Rows& state, int r, I32 b, I32 s,
                                                   const float (&key)[kPerLane],
                                                   const float (&value)[kPerLane]) {
        float dot = 0;
#pragma unroll
        for (int v = 0; v < kPerLane; ++v) dot = __fmaf_rn(state.query[r][v], key[v], dot);
        const float score = f.score(b, state.head[r], state.q[r], s, butterfly_sum(dot));
        if (score == -infinity<float>()) return;
        const float top = maximum(state.maximum[r], score);
        const float keep = expf(state.maximum[r] - top);
        const float add = expf(score - top);
        state.maximum[r] = top;
        state.weight[r] = __fmaf_rn(state.weight[r], keep, add);
#pragma unroll
        for (int v = 0; v < kPerLane; ++v)
            state.sums[r][v] = __fmaf_rn(add, value[v], state.sums[r][v] * keep);
    }

    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ float* partial(I32 warp, I32 row) {
        return reinterpret_cast<float*>(scratch<Config>()) + (warp * kRows + row) * kPartial;
    }

    template <class Config>
    static __device__ __forceinline__ void publish(const Rows& state) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float* out = partial<Config>(threadIdx.x / 32, r);
#pragma unroll
            for (int v = 0; v < kPerLane; ++v) {
                if (inside(v)) out[dimension(v)] = state.sums[r][v];
            }
            if (threadIdx.x % 32 == 0) {
                out[F::kD] = state.maximum[r];
                out[F::kD + 1] = state.weight[r];
            }
        }
    }

    template <class Config>
    static __device__ __forceinline__ void merge(const F& f, const Rows& state, I32 split, I32 b, I32 rows) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            if (r >= rows) break;
            float top = -infinity<float>();
#pragma unroll
            for (int warp = 0; warp < Config::kWarps; ++warp)
                top = maximum(top, partial<Config>(warp, r)[F::kD]);
            for (I32 d = threadIdx.x; d < kPartial; d += Config::kThreads) {
                float sum = 0;
#pragma unroll
                for (int warp = 0; warp < Config::kWarps; ++warp) {
                    const float* part = partial<Config>(warp, r);
                    const float top_of_warp = part[F::kD];
                    if (top_of_warp != -infinity<float>()) sum += part[d] * expf(top_of_warp - top);
                }
                f.store(split, b, state.head[r], state.q[r], d, d == F::kD ? top : sum);
            }
        }
    }
};

}  // namespace stretto::device
