#pragma once

#include "stretto/kinds/attention_pass.h"
#include "stretto/tile/vector.h"

namespace stretto::device {

/// What a warp of AttentionTied sums: it takes the rows of its strips in ascending order, kTogether at a time. Lane l has
/// pieces l, l + 32, ... of 16 bytes of each, and the products of all rows meet in one exchange. The softmax is online.
template <class F, class Config>
class TiedRows {
    using Element = typename F::Element;
    static constexpr int kPiece = 16 / static_cast<int>(sizeof(Element));
    static constexpr int kPieces = F::kD / kPiece;
    static constexpr int kOwn = (kPieces + 31) / 32;  // of a lane, at most
    static constexpr int kWidth = kOwn * kPiece;
    static constexpr int kQueries = F::kGroup * F::kQ;
    static constexpr int kMostRows = kWidth > 24 ? 1 : kWidth > 16 ? 2 : 4;  // whose sums fit into registers

public:
    static constexpr int kRows = kQueries < kMostRows ? kQueries : kMostRows;

private:
    // Registers: sums and query pieces, then two batches for each of the rows that are taken together. The loader's warp
    // leaves fewer to the others.
    static constexpr int kHeld = kWidth * (kRows + 1);
    static constexpr int kOfRow = 2 * 4 * kOwn;
    static constexpr int kRoom = Config::kStreams ? 104 : 150;
    static constexpr int kTogether = kHeld + 4 * kOfRow <= kRoom ? 4 : kHeld + 2 * kOfRow <= kRoom ? 2 : 1;
    static constexpr I32 kBatches = abi::kAttentionStrip / kTogether;     // of a strip
    static constexpr int kScores = kTogether * (kRows == 3 ? 4 : kRows);  // a power of two
    static constexpr I32 kRowBytes = static_cast<I32>(abi::attention_query_bytes(F::kD, false));
    using Pass = AttentionPass<F>;
    using Values = Vector<Element, kPiece>;
    using Query = Vector<float, kPiece>;

public:
    struct Batch {
        Values pieces[kTogether][kOwn];
    };

    __device__ __forceinline__ TiedRows(const F& f, const Pass& pass, I32 split, I32 end)
        : f_(f), pass_(pass), split_(split), end_(end) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) maximum_[r] = -infinity<float>();
    }

    [[nodiscard]] static __device__ __forceinline__ float* staged(I32 row) {
        return reinterpret_cast<float*>(scratch<Config>() + row * kRowBytes);
    }

    /// Are there so many batches?
    [[nodiscard]] __device__ __forceinline__ bool has_batch(I32 number) const { return row(number) < end_; }

    __device__ __forceinline__ void load(I32 number, Batch& batch) const {
        const I32 first = row(number);
        if (first >= end_) return;
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
            const Element* row = f_.key_at(pass_.b, pass_.head, min(first + t, end_ - 1));
#pragma unroll
            for (int own = 0; own < kOwn; ++own) {
                const Element* at = row + piece(own) * kPiece;
                if constexpr (F::kConstant) {
                    batch.pieces[t][own] = read_once<kPiece>(at);
                } else {
                    batch.pieces[t][own] = read_vector<kPiece>(at);
                }
            }
        }
    }

    /// The query rows are staged: one is held in registers.
    __device__ __forceinline__ void take_query() {
        if constexpr (kRows == 1) {
#pragma unroll
            for (int own = 0; own < kOwn; ++own) held_[own] = query(0, own);
        }
    }

    __device__ __forceinline__ void add(I32 number, const Batch& batch) {
        const I32 first = row(number);
        if (first >= end_) return;
        float scores[kScores] = {};  // by query row, then by row of the batch
#pragma unroll
        for (int own = 0; own < kOwn; ++own) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const Query q = kRows == 1 ? held_[own] : query(r, own);
#pragma unroll
                for (int v = 0; v < kPiece; ++v) {
#pragma unroll
                    for (int t = 0; t < kTogether; ++t) {
                        float& score = scores[r * kTogether + t];
                        score = __fmaf_rn(q.value(v), batch.pieces[t][own].value(v), score);
                    }
                }
            }
        }
        const float own_score = met(scores);
#pragma unroll
        for (int r = 0; r < kRows; ++r) weigh(r, first, own_score, scores + r * kTogether);
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
#pragma unroll
            for (int own = 0; own < kOwn; ++own) {
                const Values values = forgotten(batch.pieces[t][own]);
#pragma unroll
                for (int v = 0; v < kPiece; ++v) {
                    const float x = values.value(v);
#pragma unroll
                    for (int r = 0; r < kRows; ++r) {
                        float& sum = sums_[r][own * kPiece + v];
                        sum = __fmaf_rn(scores[r * kTogether + t], x, sum);
                    }
                }
            }
        }
    }

    template <class Parts>
    __device__ __forceinline__ void publish(U8* parts) const {
        const I32 warp = thread_here() / 32;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float* of_row = Parts::sums(parts, warp, r);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) {
                if (has(i / kPiece)) of_row[piece(i / kPiece) * kPiece + i % kPiece] = sums_[r][i];
            }
            if (lane() == 0) {
                Parts::maxima(parts, r)[warp] = maximum_[r];
                Parts::weights(parts, r)[warp] = weight_[r];
            }
        }
    }

private:
    [[nodiscard]] static __device__ __forceinline__ I32 lane() { return thread_here() % 32; }
    /// A lane without a piece repeats the last one.
    [[nodiscard]] static __device__ __forceinline__ I32 piece(int own) {
        const I32 number = own * 32 + lane();
        return kPieces % 32 == 0 ? number : min(number, kPieces - 1);
    }
    [[nodiscard]] static __device__ __forceinline__ bool has(int own) {
        return kPieces % 32 == 0 || own * 32 + lane() < kPieces;
    }

    /// The first row of a batch.
    [[nodiscard]] __device__ __forceinline__ I32 row(I32 batch) const {
        const I32 strip = thread_here() / 32 + batch / kBatches * Config::kWarps;
        return abi::attention_strip_begin(strip, split_, static_cast<I32>(F::kSplits)) +
               batch % kBatches * kTogether;
    }

    [[nodiscard]] static __device__ __forceinline__ Query query(int row, int own) {
        if (!has(own)) return {};
        return read_vector<kPiece>(staged(row) + piece(own) * kPiece);
    }

    /// From the products of one query row to weights, once the sums so far are less the same maximum.
    __device__ __forceinline__ void weigh(int r, I32 first, float own_score, float* scores) {
        float top = maximum_[r];
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
            const float dot = __shfl_sync(0xffffffffu, own_score, lane_with(r * kTogether + t));
            scores[t] = first + t < end_
                            ? f_.score(pass_.b, pass_.head_of(r), pass_.query_of(r), first + t, dot)
                            : -infinity<float>();
            top = fmaxf(top, scores[t]);
        }
        const float shift = scaled_shift(top);
        if (top != maximum_[r]) {
            const float keep = exponential(maximum_[r], shift);
            maximum_[r] = top;
            weight_[r] *= keep;
#pragma unroll
            for (int i = 0; i < kWidth; ++i) sums_[r][i] *= keep;
        }
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
            scores[t] = exponential(scores[t], shift);
            weight_[r] += scores[t];
        }
    }

    /// Adds up each of kScores values over the lanes; a lane gets the sum of one, as lane_with says. Half of the values
    /// change places for the other half, until each lane has one.
    [[nodiscard]] static __device__ __forceinline__ float met(float (&values)[kScores]) {
        int apart = 16;
#pragma unroll
        for (int left = kScores / 2; left >= 1; left /= 2, apart /= 2) {
            const bool upper = (lane() & apart) != 0;
#pragma unroll
            for (int i = 0; i < left; ++i) {
                const float given = upper ? values[i] : values[i + left];
                const float kept = upper ? values[i + left] : values[i];
                values[i] = kept + __shfl_xor_sync(0xffffffffu, given, apart);
            }
        }
        float sum = values[0];
#pragma unroll
        for (; apart >= 1; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        return sum;
    }
    [[nodiscard]] static __device__ __forceinline__ constexpr int lane_with(int value) {
        return value * (32 / kScores);
    }

    /// The same, which the compiler does not know: it would keep all elements as floats from their products on.
    [[nodiscard]] __device__ __forceinline__ Values forgotten(Values values) const {
        if constexpr (sizeof(Element) == 2) {
            const U32 nothing = static_cast<U32>(split_) >> 31;
#pragma unroll
            for (U32& pair : values.pairs) pair ^= nothing;
        }
        return values;
    }

    const F& f_;
    const Pass& pass_;
    I32 split_;
    I32 end_;
    Query held_[kRows == 1 ? kOwn : 1];
    float sums_[kRows][kWidth] = {};
    float maximum_[kRows];
    float weight_[kRows] = {};
};

/// Attention whose values are its keys, in wide rows: each is read once, 16 bytes at a time, for its products with the query
/// rows and then for the sums. The next batch but one of a warp's rows is on its way meanwhile, and the first two from before
/// the query rows are there. The warps are merged in order.
/// F: what AttentionParts takes, and Element, key_at(b, h, s), the address of a row, and kConstant, where no task writes rows.
template <class F>
class AttentionTied {
public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        using Rows = TiedRows<F, Config>;
        using Parts = AttentionParts<F, Config, Rows::kRows>;
        const F f{Operands(record, launch)};
        const I32 split = record.tile[3].begin;
        for_each_pass<F, Config, Rows::kRows>(record, [&](const AttentionPass<F>& pass) {
            Rows rows(f, pass, split, Parts::context_end(f, pass.b));
            typename Rows::Batch batches[2]{};
            rows.load(0, batches[0]);
            rows.load(1, batches[1]);
            Parts::stage(
                f, pass, [](I32 row, I32 d, float x) { Rows::staged(row)[d] = x; }, [](I32, float) {},
                [](I32, float) {});
            consumer_barrier<Config>();
            stamp<Config>(launch, record.task, &abi::TaskStamps::staged);
            rows.take_query();
#pragma unroll 1
            for (I32 i = 0; rows.has_batch(i); i += 2) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    rows.add(i + half, batches[half]);
                    rows.load(i + half + 2, batches[half]);
                }
            }
            U8* parts = reinterpret_cast<U8*>(Rows::staged(Rows::kRows));
            rows.template publish<Parts>(parts);
            consumer_barrier<Config>();
            Parts::merge(f, pass, parts, split);
        });
        return cursor;
    }
};

}  // namespace stretto::device
