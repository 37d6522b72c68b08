#pragma once

#include "stretto/kinds/attention_pass.h"
#include "stretto/tile/mma.h"
#include "stretto/tile/pairs.h"
#include "stretto/tile/row_pieces.h"

namespace stretto::device {

/// Attention on tensor cores, for keys and values of one 16-bit type. A warp takes one strip of 16 context rows after the
/// other, straight from global memory into the fragments of the products:
///   scores   A = query rows, the high part of row r in row r and what it leaves in row r + 8; B = keys
///   sums     A = values, two elements d as rows g and g + 8; B = exp(score - max), its high part and then its low part
/// so that both left factors keep about 16 bits. The k of a product may be permuted where A and B agree, and its rows where
/// the results are read in the same order: a lane's loads are of neighbouring elements. Keys and values of earlier steps
/// wait for nothing in this launch: the first strip is on its way before the query is waited for.
/// F: what AttentionParts takes, and Element, key_at(b, h, s), value_at(b, h, s): the address of a row.
template <class F>
class AttentionMma {
    using Element = typename F::Element;
    using Pass = AttentionPass<F>;
    using Pieces = RowPieces<Element, F::kD>;
    static constexpr int kRows = static_cast<int>(abi::attention_rows(F::kGroup * F::kQ, true));
    static constexpr I32 kQueryBytes = static_cast<I32>(abi::attention_query_bytes(F::kD, true));
    static constexpr I32 kFreshBytes = static_cast<I32>(abi::attention_fresh_bytes(F::kD));
    static constexpr I32 kAhead = 4;  ///< turns that a strip is on its way before its own
    /// May a warp have several strips?
    template <class Config>
    static constexpr bool kTakesTurns = F::kContext > F::kSplits* Config::kWarps* abi::kAttentionStrip;
    template <class Config>
    using Parts = AttentionParts<F, Config, kRows>;

    struct Lane {
        I32 warp;
        I32 g;
        I32 q;

        [[nodiscard]] static __device__ __forceinline__ Lane here() {
            const I32 thread = thread_here();
            return {thread >> 5, (thread >> 2) & 7, thread & 3};
        }

        /// Row of a strip of the lane's score i, and of its values i.
        [[nodiscard]] __device__ __forceinline__ I32 row(int i) const { return 2 * q + i % 2 + i / 2 * 8; }
    };

    /// This lane's fragments of one strip: keys of rows g and g + 8, values of rows row(0) to row(3).
    struct Keys {
        U32 rows[2][Pieces::kQuarter];
    };
    struct Values {
        U32 rows[4][Pieces::kEighth];
    };
    /// Strips whose keys registers hold: those of the next one are on their way during a turn, but where rows are wide.
    template <class Config>
    static constexpr int kHeld = kTakesTurns<Config>&& F::kD <= 64 ? 2 : 1;

    /// For query row g: maximum and this lane's part of the weight. For query rows 2q and 2q + 1: sums of the elements
    /// that Pieces::column() names, by element, then row.
    struct State {
        float maximum = -infinity<float>();
        float weight = 0;
        float sums[Pieces::kEighth][4] = {};
    };

public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 split = record.tile[3].begin;
        for_each_pass<F, Config, kRows>(record, [&](const Pass& pass) {
            const I32 begin = begin_of<Config>(0, split);
            Keys keys[kHeld<Config>]{};  // written on every path (operands.h)
            if (begin < F::kContext) {
                load_keys(f, pass, begin, keys[0]);
                prefetch_values(f, pass, begin);
            }
            const I32 end = Parts<Config>::context_end(f, pass.b);
            if constexpr (kHeld<Config> == 2) {
                const I32 next = begin_of<Config>(1, split);
                if (next < end) load_keys(f, pass, next, keys[1]);
            }
            if constexpr (kTakesTurns<Config>) {
#pragma unroll 1
                for (I32 turn = 1; turn < kAhead; ++turn) fetch_strip<Config>(f, pass, turn, split, end);
            }
            const I32 fresh = Parts<Config>::fresh_row(f, pass.b);
            stage<Config>(f, pass);
            consumer_barrier<Config>();
            stamp<Config>(launch, record.task, &abi::TaskStamps::staged);
            publish<Config>(attend<Config>(f, pass, split, keys, end, fresh));
            consumer_barrier<Config>();
            Parts<Config>::merge(f, pass, parts<Config>(), split);
        });
        return cursor;
    }

private:
    /// A staged query row: by pairs of elements, the high parts, then what they leave. One 16-byte load is the left factor of
    /// a product.
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ Element* staged_query(I32 row) {
        return reinterpret_cast<Element*>(scratch<Config>() + row * kQueryBytes);
    }
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ Element* staged_key() {
        return staged_query<Config>(kRows);
    }
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ Element* staged_value() {
        return reinterpret_cast<Element*>(scratch<Config>() + kRows * kQueryBytes + kFreshBytes);
    }
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ U8* parts() {
        return scratch<Config>() + kRows * kQueryBytes + 2 * kFreshBytes;
    }

    /// First row of this warp's strip number `turn` of the split.
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ I32 begin_of(I32 turn, I32 split) {
        const I32 warp = Lane::here().warp;
        return abi::attention_strip_begin(turn * Config::kWarps + warp, split, F::kSplits);
    }

    template <class Config>
    static __device__ __forceinline__ void stage(const F& f, const Pass& pass) {
        Parts<Config>::stage(
            f, pass,
            [](I32 row, I32 d, float x) {
                const Element high = narrow<Element>(x);
                Element* pair = staged_query<Config>(row) + d / 2 * 4 + d % 2;
                pair[0] = high;
                pair[2] = narrow<Element>(x - widen(high));
            },
            [](I32 d, float x) { staged_key<Config>()[d] = narrow<Element>(x); },
            [](I32 d, float x) { staged_value<Config>()[d] = narrow<Element>(x); });
    }

    /// Rows beyond the context repeat its last row.
    [[nodiscard]] static __device__ __forceinline__ I32 inside(I32 s) {
        return F::kContext % abi::kAttentionStrip == 0 ? s : min(s, F::kContext - 1);
    }

    [[nodiscard]] static __device__ __forceinline__ const Element* key_row(const F& f, const Pass& pass,
                                                                           I32 begin, int half) {
        return f.key_at(pass.b, pass.head, inside(begin + half * 8 + Lane::here().g));
    }
    [[nodiscard]] static __device__ __forceinline__ const Element* value_row(const F& f, const Pass& pass,
                                                                             I32 begin, int i) {
        return f.value_at(pass.b, pass.head, inside(begin + Lane::here().row(i)));
    }

    static __device__ __forceinline__ void load_keys(const F& f, const Pass& pass, I32 begin, Keys& keys) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            Pieces::load_quarter(key_row(f, pass, begin, half), Lane::here().q, keys.rows[half]);
    }
    static __device__ __forceinline__ void load_values(const F& f, const Pass& pass, I32 begin,
                                                       Values& values) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            Pieces::load_eighth(value_row(f, pass, begin, i), Lane::here().g, values.rows[i]);
    }
    /// Brings values near without taking registers for them.
    static __device__ __forceinline__ void prefetch_values(const F& f, const Pass& pass, I32 begin) {
        const Lane lane = Lane::here();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const Element* row = value_row(f, pass, begin, i);
#pragma unroll
            for (int c = 0; c < Pieces::kEighthPieces; ++c)
                asm volatile("prefetch.global.L1 [%0];" ::"l"(row + Pieces::column(c, 0, lane.g)));
        }
    }
    /// Brings a strip that is some turns ahead into the L2 cache: each lane asks for lines of one row of keys or values.
    template <class Config>
    static __device__ __forceinline__ void fetch_strip(const F& f, const Pass& pass, I32 turn, I32 split,
                                                       I32 end) {
        constexpr int kLine = 128 / static_cast<int>(sizeof(Element));
        const I32 lane = thread_here() % 32;
        const I32 s = begin_of<Config>(turn, split) + lane % abi::kAttentionStrip;
        if (s >= end) return;
        const Element* row =
            lane < abi::kAttentionStrip ? f.key_at(pass.b, pass.head, s) : f.value_at(pass.b, pass.head, s);
#pragma unroll
        for (int d = 0; d < F::kD; d += kLine) asm volatile("prefetch.global.L2 [%0];" ::"l"(row + d));
    }
    template <class Config>
    [[nodiscard]] static __device__ __forceinline__ State attend(const F& f, const Pass& pass, I32 split,
                                                                 Keys (&keys)[kHeld<Config>], I32 end,
                                                                 I32 fresh) {
        State state;
        Values values{};
        I32 begin = begin_of<Config>(0, split);
#pragma unroll 1
        for (I32 turn = 0; begin < end;) {
#pragma unroll
            for (int held = 0; held < kHeld<Config> && begin < end; ++held, ++turn) {
                const I32 next = begin_of<Config>(turn + 1, split);
                const I32 later = begin_of<Config>(turn + kHeld<Config>, split);
                float scores[4];
                if (kHeld<Config> == 1 && turn > 0) load_keys(f, pass, begin, keys[held]);
                if constexpr (kTakesTurns<Config>) fetch_strip<Config>(f, pass, turn + kAhead, split, end);
                multiply_keys<Config>(begin, fresh, keys[held], scores);
                __syncwarp();  // keeps the loads behind it: they take the registers of the keys
                load_values(f, pass, begin, values);
                if (kHeld<Config> == 2 && later < end) load_keys(f, pass, later, keys[held]);
                if (next < end) prefetch_values(f, pass, next);
                const float keep = take_weights(f, pass, begin, end, scores, state);
                if (turn > 0) rescale(state, keep);
                multiply_values<Config>(begin, end, fresh, values, scores, state);
                begin = next;
            }
        }
        return state;
    }

    /// Is one of the strip's rows taken from the staged ones?
    [[nodiscard]] static __device__ __forceinline__ bool is_inside(I32 fresh, I32 begin) {
        return fresh >= begin && fresh < begin + abi::kAttentionStrip;
    }

    /// Products of query row g with the keys of rows row(0) to row(3).
    template <class Config>
    static __device__ __forceinline__ void multiply_keys(I32 begin, I32 fresh, Keys& keys,
                                                         float (&products)[4]) {
        const Lane lane = Lane::here();
        if (F::kFreshKey && is_inside(fresh, begin)) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (fresh == begin + half * 8 + lane.g)
                    Pieces::load_quarter(staged_key<Config>(), lane.q, keys.rows[half]);
            }
        }
        const Element* query = staged_query<Config>(kRows == 8 ? lane.g : min(lane.g, kRows - 1));
        float sums[2][4] = {};
#pragma unroll
        for (int c = 0; c < Pieces::kQuarterPieces; ++c) {
#pragma unroll
            for (int w = 0; w < Pieces::quarter_pairs(c); w += 2) {
                const Element* pair = query + (c * 16 + lane.q * Pieces::quarter_pairs(c) + w) * 4;
                const uint4 a = *reinterpret_cast<const uint4*>(pair);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const U32* pairs = keys.rows[half] + 4 * c + w;
                    multiply_add_tile<Element>(sums[half], a, pairs[0], pairs[1]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) products[i] = sums[i / 2][i % 2] + sums[i / 2][i % 2 + 2];
    }

    /// Turns products into exp(score - max); returns what earlier weights and sums of the row are scaled by.
    [[nodiscard]] static __device__ __forceinline__ float take_weights(const F& f, const Pass& pass,
                                                                       I32 begin, I32 end, float (&scores)[4],
                                                                       State& state) {
        const Lane lane = Lane::here();
        const I32 h = pass.head_of(lane.g);
        const I32 q = pass.query_of(lane.g);
        float top = state.maximum;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const I32 s = begin + lane.row(i);
            scores[i] = s < end ? f.score(pass.b, h, q, s, scores[i]) : -infinity<float>();
            top = fmaxf(top, scores[i]);
        }
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        const float shift = scaled_shift(top);
        const float keep = exponential(state.maximum, shift);
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[i] = exponential(scores[i], shift);
        state.maximum = top;
        state.weight = __fmaf_rn(state.weight, keep, (scores[0] + scores[1]) + (scores[2] + scores[3]));
        return keep;
    }

    static __device__ __forceinline__ void rescale(State& state, float keep) {
        const Lane lane = Lane::here();
        const float even = __shfl_sync(~0u, keep, 8 * lane.q);
        const float odd = __shfl_sync(~0u, keep, 8 * lane.q + 4);
#pragma unroll
        for (auto& sums : state.sums) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[i] *= i % 2 == 0 ? even : odd;
        }
    }

    template <class Config>
    static __device__ __forceinline__ void multiply_values(I32 begin, I32 end, I32 fresh, Values& values,
                                                           const float (&weights)[4], State& state) {
        const Lane lane = Lane::here();
        const U32 high[2] = {packed<Element>(weights[0], weights[1]),
                             packed<Element>(weights[2], weights[3])};
        const U32 low[2] = {
            packed<Element>(weights[0] - low_of<Element>(high[0]), weights[1] - high_of<Element>(high[0])),
            packed<Element>(weights[2] - low_of<Element>(high[1]), weights[3] - high_of<Element>(high[1]))};
        if (F::kFreshValue && is_inside(fresh, begin)) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (fresh == begin + lane.row(i))
                    Pieces::load_eighth(staged_value<Config>(), lane.g, values.rows[i]);
            }
        }
        if (begin + abi::kAttentionStrip > end) clear_values(values, end - begin);
#pragma unroll
        for (int w = 0; w < Pieces::kEighth; ++w) {
            const uint4 a = make_uint4(low_elements(values.rows[0][w], values.rows[1][w]),
                                       high_elements(values.rows[0][w], values.rows[1][w]),
                                       low_elements(values.rows[2][w], values.rows[3][w]),
                                       high_elements(values.rows[2][w], values.rows[3][w]));
            multiply_add_tile<Element>(state.sums[w], a, high[0], high[1]);
            multiply_add_tile<Element>(state.sums[w], a, low[0], low[1]);
        }
    }

    /// Rows from `count` on have weight zero, but zero times what lies there might not be zero.
    static __device__ __forceinline__ void clear_values(Values& values, I32 count) {
        const Lane lane = Lane::here();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (U32& pair : values.rows[i]) pair = lane.row(i) < count ? pair : 0;
        }
    }

    template <class Config>
    static __device__ __forceinline__ void publish(State state) {
        const Lane lane = Lane::here();
        const I32 warp = lane.warp;
        state.weight += __shfl_xor_sync(~0u, state.weight, 1);
        state.weight += __shfl_xor_sync(~0u, state.weight, 2);
        if (lane.q == 0 && lane.g < kRows) {
            Parts<Config>::maxima(parts<Config>(), lane.g)[warp] = state.maximum;
            Parts<Config>::weights(parts<Config>(), lane.g)[warp] = state.weight;
        }
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            const I32 row = 2 * lane.q + odd;
            if (row >= kRows) continue;
            float* sums = Parts<Config>::sums(parts<Config>(), warp, row);
#pragma unroll
            for (int c = 0; c < Pieces::kEighthPieces; ++c) {
#pragma unroll
                for (int w = 0; w < Pieces::eighth_pairs(c); ++w) {
                    const float(&from)[4] = state.sums[Pieces::eighth_begin(c) + w];
                    *reinterpret_cast<float2*>(sums + Pieces::column(c, w, lane.g)) =
                        make_float2(from[odd], from[odd + 2]);
                }
            }
        }
    }
};

}  // namespace stretto::device
