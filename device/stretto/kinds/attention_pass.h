#pragma once

#include "stretto/operands.h"
#include "stretto/profile/stamps.h"

/// What the attention kinds share: the query rows of a pass, staging, and the sum over the warps.
namespace stretto::device {

inline constexpr float kLog2E = 0x1.715476p+0f;

/// exp(x - shift) with `scaled` = -shift log2(e); exp(-inf) is 0.
__device__ __forceinline__ float exponential(float x, float scaled) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(__fmaf_rn(x, kLog2E, scaled)));
    return result;
}

/// What `exponential` takes for the largest of some scores; scores that are all masked are not shifted.
__device__ __forceinline__ float scaled_shift(float top) {
    return top == -infinity<float>() ? 0 : -top * kLog2E;
}

/// Query rows that share key and value rows and are computed together. A query row is (head in the group, q).
template <class F>
struct AttentionPass {
    I32 b;
    I32 head;      ///< first head of the group
    abi::Range q;  ///< of the task
    I32 first;     ///< number of the pass's first row in the task
    I32 rows;      ///< of the task

    [[nodiscard]] __device__ __forceinline__ I32 head_of(I32 row) const { return head + at(row) / width(); }
    [[nodiscard]] __device__ __forceinline__ I32 query_of(I32 row) const {
        return q.begin + at(row) % width();
    }

private:
    /// Rows beyond the last repeat it; their results are dropped.
    [[nodiscard]] __device__ __forceinline__ I32 at(I32 row) const { return min(first + row, rows - 1); }
    [[nodiscard]] __device__ __forceinline__ I32 width() const { return F::kQ == 1 ? 1 : q.end - q.begin; }
};

/// This thread's items of [0, Count), a few at a time: item i is dealt to thread (First + i) % Threads. `Together` rounds
/// are under way at one time.
template <class Early, int Count, int First, int Threads, int Together>
class Dealt {
public:
    static constexpr I32 kRounds = (Count + Threads - 1) / Threads;

    /// early = load(i) for the items of rounds `round` to `round` + Together.
    template <class Load>
    __device__ __forceinline__ void load(I32 round, const Load& load) {
        each(round, [&](int j, I32 i) { early_[j] = load(i); });
    }
    /// use(i, early) for the items that were loaded, once their words are ready.
    template <class F, class Load, class Use>
    __device__ __forceinline__ void use(const F& f, I32 round, const Load& load, const Use& use) {
        each(round, [&](int j, I32 i) {
            await(f, early_[j], [&] { return load(i); });
            use(i, early_[j]);
        });
    }

private:
    template <class Body>
    static __device__ __forceinline__ void each(I32 round, Body&& body) {
        const I32 turned = thread_here() - First % Threads;
        const I32 thread = turned < 0 ? turned + Threads : turned;
#pragma unroll
        for (int j = 0; j < (kRounds < Together ? kRounds : Together); ++j) {
            const I32 i = (round + j) * Threads + thread;
            if (i < Count) body(j, i);
        }
    }

    Early early_[Together]{};  // written on every path (operands.h)
};

/// F: kD, kGroup, kQ, kContext, kSplits, kHasLength, kFreshKey, kFreshValue, QueryEarly, load_query(b, h, q, d) giving a
/// QueryEarly, query(b, h, q, d, early); fresh_row(b), KeyEarly, load_fresh_key(b, h, d), fresh_key(b, h, d, early) and
/// the same for the value, rounded to the operand's type, where there is one; length(b) where there is one;
/// score(b, h, q, s, dot) (scale and bias applied; -inf where masked); store(split, b, h, q, d, value).
template <class F, class Config, int Rows>
class AttentionParts {
public:
    using Pass = AttentionPass<F>;
    static constexpr I32 kNoRow = -1;

    /// Evaluates everything that comes from other tasks of this launch: query(row, d, value), key(d, value) and
    /// value(d, value) get the results. The caller ends it with a barrier.
    template <class Query, class Key, class Value>
    static __device__ __forceinline__ void stage(const F& f, const Pass& pass, Query&& query, Key&& key,
                                                 Value&& value) {
        constexpr int kQuery = Rows * F::kD;
        constexpr int kKey = F::kFreshKey ? F::kD : 0;
        constexpr int kValue = F::kFreshValue ? F::kD : 0;
        // What is under way takes registers.
        constexpr int kTogether = sizeof(typename F::QueryEarly) > 64 ? 1 : 2;
        using Queries = Dealt<typename F::QueryEarly, kQuery, 0, Config::kThreads, kTogether>;
        Queries queries;
        Dealt<typename F::KeyEarly, kKey, kQuery, Config::kThreads, kTogether> keys;
        Dealt<typename F::ValueEarly, kValue, kQuery + kKey, Config::kThreads, kTogether> values;
        const auto load_query = [&](I32 i) {
            const I32 row = i / F::kD;
            return f.load_query(pass.b, pass.head_of(row), pass.query_of(row), i % F::kD);
        };
        const auto load_key = [&](I32 d) {
            if constexpr (F::kFreshKey) return f.load_fresh_key(pass.b, pass.head, d);
        };
        const auto load_value = [&](I32 d) {
            if constexpr (F::kFreshValue) return f.load_fresh_value(pass.b, pass.head, d);
        };
#pragma unroll 1
        for (I32 round = 0; round < Queries::kRounds; round += kTogether) {
            queries.load(round, load_query);
            if constexpr (F::kFreshKey) keys.load(round, load_key);
            if constexpr (F::kFreshValue) values.load(round, load_value);
            queries.use(f, round, load_query, [&](I32 i, const auto& early) {
                const I32 row = i / F::kD;
                const I32 d = i % F::kD;
                query(row, d, f.query(pass.b, pass.head_of(row), pass.query_of(row), d, early));
            });
            if constexpr (F::kFreshKey) {
                keys.use(f, round, load_key,
                         [&](I32 d, const auto& early) { key(d, f.fresh_key(pass.b, pass.head, d, early)); });
            }
            if constexpr (F::kFreshValue) {
                values.use(f, round, load_value, [&](I32 d, const auto& early) {
                    value(d, f.fresh_value(pass.b, pass.head, d, early));
                });
            }
        }
    }

    /// The context row that is taken from the staged rows; kNoRow where there is none.
    [[nodiscard]] static __device__ __forceinline__ I32 fresh_row(const F& f, I32 b) {
        if constexpr (F::kFreshKey || F::kFreshValue) {
            return static_cast<I32>(wrapped(f.fresh_row(b), F::kContext));
        }
        return kNoRow;
    }

    [[nodiscard]] static __device__ __forceinline__ I32 context_end(const F& f, I32 b) {
        if constexpr (F::kHasLength) {
            const I64 length = f.length(b);
            return length < 0 ? 0 : length < F::kContext ? static_cast<I32>(length) : F::kContext;
        }
        return F::kContext;
    }

    // `parts` in shared memory, by row: each warp's maximum, each warp's weight; then each warp's sums, by warp and row.
    [[nodiscard]] static __device__ __forceinline__ float* maxima(U8* parts, I32 row) {
        return reinterpret_cast<float*>(parts) + row * 2 * Config::kWarps;
    }
    [[nodiscard]] static __device__ __forceinline__ float* weights(U8* parts, I32 row) {
        return maxima(parts, row) + Config::kWarps;
    }
    [[nodiscard]] static __device__ __forceinline__ float* sums(U8* parts, I32 warp, I32 row) {
        return maxima(parts, Rows) + (warp * Rows + row) * F::kD;
    }

    /// Adds the parts of all warps in order, and stores the result or the split's part of it.
    static __device__ __forceinline__ void merge(const F& f, const Pass& pass, U8* parts, I32 split) {
        const I32 count = min(Rows, pass.rows - pass.first) * F::kD;
#pragma unroll 1
        for (I32 i = thread_here(); i < count; i += Config::kThreads) {
            const I32 row = i / F::kD;
            const I32 d = i % F::kD;
            const float* tops = maxima(parts, row);
            float top = tops[0];
#pragma unroll
            for (int warp = 1; warp < Config::kWarps; ++warp) top = fmaxf(top, tops[warp]);
            const float shift = scaled_shift(top);
            float sum = 0;
            float weight = 0;
#pragma unroll
            for (int warp = 0; warp < Config::kWarps; ++warp) {
                const float scale = exponential(tops[warp], shift);
                sum = __fmaf_rn(scale, sums(parts, warp, row)[d], sum);
                weight = __fmaf_rn(scale, weights(parts, row)[warp], weight);
            }
            const I32 h = pass.head_of(row);
            const I32 q = pass.query_of(row);
            if constexpr (F::kSplits == 1) {
                f.store(split, pass.b, h, q, d, __fdividef(sum, weight));
            } else {
                // Of parts without a row none counts.
                f.store(split, pass.b, h, q, d, weight == 0 ? 0 : __fdividef(sum, weight));
                if (d == 0) {
                    f.store(split, pass.b, h, q, F::kD, top + __logf(weight));
                    f.store(split, pass.b, h, q, F::kD + 1, top);
                }
            }
        }
    }
};

/// Calls body(pass) for all passes of a task, with a barrier of the consumers between two. A task has one batch entry and
/// one key head.
template <class F, class Config, int Rows, class Body>
__device__ __forceinline__ void for_each_pass(const abi::Record& record, Body&& body) {
    const abi::Range q = record.tile[2];
    AttentionPass<F> pass{record.tile[0].begin, record.tile[1].begin * F::kGroup, q, 0,
                          F::kQ == 1 ? F::kGroup : F::kGroup * (q.end - q.begin)};
    body(pass);
    if constexpr (F::kGroup * F::kQ > Rows) {
        for (pass.first = Rows; pass.first < pass.rows; pass.first += Rows) {
            consumer_barrier<Config>();
            body(pass);
        }
    }
}

}  // namespace stretto::device
