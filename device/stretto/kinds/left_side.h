#pragma once

#include "stretto/operands.h"
#include "stretto/tile/pairs.h"
#include "stretto/tile/vector.h"

namespace stretto::device {

/// Coordinates of one MatMul task. Where the region has a single row or batch entry the compiler may know.
template <class F>
struct MatMulTile {
    abi::Range b;
    abi::Range m;
    abi::Range n;

    __device__ __forceinline__ explicit MatMulTile(const abi::Record& record)
        : b(single<F::kB>(record.tile[0])), m(single<F::kM>(record.tile[1])), n(record.tile[2]) {}
    [[nodiscard]] __device__ __forceinline__ I32 rows() const { return m.end - m.begin; }
    [[nodiscard]] __device__ __forceinline__ I32 columns() const { return n.end - n.begin; }

private:
    template <int Extent>
    static __device__ __forceinline__ abi::Range single(const abi::Range& range) {
        if constexpr (Extent == 1) return {0, 1};
        return range;
    }
};

/// What the first store of this thread loads: read before the product, so that its latency is hidden.
template <class F>
[[nodiscard]] __device__ __forceinline__ typename F::Early load_first_store(const F& f, I32 b,
                                                                            const MatMulTile<F>& tile) {
    const I32 n = thread_here();
    return tile.rows() == 1 && n < tile.columns() ? f.load(b, tile.m.begin, tile.n.begin + n)
                                                  : typename F::Early{};
}

/// The staged left side of a MatMul in scratch memory, and the partial sums of its row statistics behind it (the
/// layout of abi::matmul_scratch). Rows are staged side by side, each by kRowWarps warps, kWidth neighbours a thread.
/// F: kB, kM, kK, kStats, kInner, kWidth, kRowWarps, Left (element), Acc, LeftEarly, load_left(b, m, k) giving a LeftEarly of
/// kWidth neighbours whose words may be missing; of neighbour v left(b, m, k, v, stat, early) and stat_term(Number<j>, b, m,
/// k, v, stat, early); stat_finish(Number<j>, b, m, sum, stat); `stat` holds the earlier statistics. The first kInner of them
/// must be known before the left side and the terms of the others, which are summed while the left side is staged.
/// Panels: rows are laid out for the tensor cores of MatMulPanels; `row` then gives bytes, not elements in order.
template <class F, class Config, bool Panels = false>
class LeftSide {
    /// Rows that are staged at one time. A thread may have several, one after the other, unless kOneRowEach.
    static constexpr I32 kRowsTogether = Config::kWarps / F::kRowWarps;
    static constexpr bool kOneRowEach = F::kM <= kRowsTogether;

public:
    using Acc = typename F::Acc;
    using Element = typename F::Left;
    static constexpr I32 kRowBytes = static_cast<I32>(abi::left_row_bytes(F::kK, sizeof(Element), Panels));
    /// The last step of summing waits for `finish`.
    static constexpr bool kFinishesLate = kOneRowEach && F::kInner < F::kStats;
    struct Stats {
        Acc values[F::kStats == 0 ? 1 : F::kStats];
    };

    __device__ __forceinline__ explicit LeftSide(const MatMulTile<F>& tile) : tile_(tile) {}

    [[nodiscard]] __device__ __forceinline__ const Element* row(I32 m) const {
        return reinterpret_cast<const Element*>(scratch<Config>() + m * kRowBytes);
    }
    /// What follows in scratch memory.
    [[nodiscard]] __device__ __forceinline__ Acc* rest() const {
        const I32 partials = F::kStats * tile_.rows() * Config::kWarps * static_cast<I32>(sizeof(Acc));
        return reinterpret_cast<Acc*>(scratch<Config>() + tile_.rows() * kRowBytes +
                                      (partials + 15) / 16 * 16);
    }

    /// Evaluates the prologue for all rows of batch `b`. Every consumer thread takes part; ends with their barrier.
    /// `finish` takes the result.
    [[nodiscard]] __device__ __forceinline__ Stats stage(const F& f, I32 b) const {
        Batch kept{};
        if constexpr (kIsKept) {
            if (first_row() < tile_.rows()) kept = load(f, b, first_row(), 0);
        }
        for_each_number<0, F::kInner>([&]<int J>(Number<J> j) {
            for_each_row([&](I32 m) { sum_inner(f, j, kept, b, m); });
            consumer_barrier<Config>();
        });
        Stats sums{};
        for_each_row([&](I32 m) {
            sums = stage_row(f, kept, b, m);
            if constexpr (!kFinishesLate) add_outer(sums, m);
        });
        consumer_barrier<Config>();
        return sums;
    }

    /// Ends the sums of the statistics that the stores use, some work after the staging; a barrier must follow before
    /// `statistics` of all.
    __device__ __forceinline__ void finish(const Stats& sums) const {
        if constexpr (kFinishesLate) for_each_row([&](I32 m) { add_outer(sums, m); });
    }

    /// The first `Count` statistics of a row, from the partial sums of its warps.
    template <int Count>
    [[nodiscard]] __device__ __forceinline__ Stats statistics(const F& f, I32 b, I32 m) const {
        Stats stats{};
        if constexpr (Count > 0) {
            for_each_number<0, Count>([&]<int J>(Number<J> j) {
                const Acc* sums = partial(J, m);
                Acc sum = sums[0];
#pragma unroll
                for (int warp = 1; warp < F::kRowWarps; ++warp) sum += sums[warp];
                stats.values[J] = f.stat_finish(j, b, tile_.m.begin + m, sum, stats.values);
            });
        }
        return stats;
    }

private:
    using Early = typename F::LeftEarly;
    static constexpr I32 kRowThreads = F::kRowWarps * 32;
    static constexpr I32 kGroups = F::kK / F::kWidth;  ///< of neighbours, in a row
    static constexpr int kRounds = (kGroups + kRowThreads - 1) / kRowThreads;
    /// Groups that one thread loads before it uses the first, as many as 192 bytes of registers hold, in batches of one size.
    static constexpr int kFit = 192 / static_cast<int>(sizeof(Early));
    static constexpr int kAhead = kFit < 1 ? 1 : kFit > 12 ? 12 : kFit;
    static constexpr int kBatches = (kRounds + kAhead - 1) / kAhead;
    static constexpr int kRoundsAhead = (kRounds + kBatches - 1) / kBatches;
    /// What is loaded of a thread's only row stays in registers for all that need it.
    static constexpr bool kIsKept = kOneRowEach && kRounds <= kAhead;

    struct Batch {
        Early values[kRoundsAhead];
    };

    /// The first row of this thread; warps that are left over have none.
    [[nodiscard]] __device__ __forceinline__ I32 first_row() const {
        if constexpr (kRowsTogether == 1 && Config::kWarps == F::kRowWarps) return 0;
        const I32 row = thread_here() / kRowThreads;
        return row < kRowsTogether ? row : tile_.rows();
    }

    template <class Body>
    __device__ __forceinline__ void for_each_row(Body&& body) const {
        if constexpr (kOneRowEach) {
            if (first_row() < tile_.rows()) body(first_row());
        } else {
            for (I32 m = first_row(); m < tile_.rows(); m += kRowsTogether) body(m);
        }
    }

    /// Calls body(round, k) for this thread's groups of a row, from a round on.
    template <class Body>
    static __device__ __forceinline__ void for_each_of_batch(I32 round, Body&& body) {
        constexpr bool kAlwaysInside = kRounds % kRoundsAhead == 0 && kRounds * kRowThreads == kGroups;
        const I32 first = round * kRowThreads + thread_here() % kRowThreads;
#pragma unroll
        for (int r = 0; r < kRoundsAhead; ++r) {
            const I32 group = first + r * kRowThreads;
            if (kAlwaysInside || group < kGroups) body(r, group * F::kWidth);
        }
    }

    /// Asks for everything before it looks at any answer; every round of polls asks for all that is missing.
    [[nodiscard]] __device__ __forceinline__ Batch load(const F& f, I32 b, I32 m, I32 round) const {
        Batch batch{};
        const auto ask = [&](int r, I32 k) { batch.values[r] = f.load_left(b, tile_.m.begin + m, k); };
        for_each_of_batch(round, ask);
        if constexpr (Early::kWords) {
            const U32 tag = f.words.tag();
            const auto missing = [&] {
                U32 slot = kNoneMissing;
                for_each_of_batch(round, [&](int r, I32) {
                    if (!batch.values[r].ready(tag)) slot = batch.values[r].missing(tag);
                });
                return slot;
            };
            if (missing() != kNoneMissing) {
                f.words.wait([&] {
                    for_each_of_batch(round, [&](int r, I32 k) {
                        if (!batch.values[r].ready(tag)) ask(r, k);
                    });
                    return missing();
                });
            }
        }
        return batch;
    }

    /// Calls body(k, early) for this thread's groups of row m, in ascending order.
    template <class Body>
    __device__ __forceinline__ void for_each_loaded(const F& f, const Batch& kept, I32 b, I32 m,
                                                    Body&& body) const {
        if constexpr (kIsKept) {
            for_each_of_batch(0, [&](int r, I32 k) { body(k, kept.values[r]); });
        } else {
#pragma unroll 1
            for (I32 round = 0; round < kRounds; round += kRoundsAhead) {
                const Batch batch = load(f, b, m, round);
                for_each_of_batch(round, [&](int r, I32 k) { body(k, batch.values[r]); });
            }
        }
    }

    /// Of a row's warps, one after the other.
    [[nodiscard]] __device__ __forceinline__ Acc* partial(int j, I32 m) const {
        return reinterpret_cast<Acc*>(scratch<Config>() + tile_.rows() * kRowBytes) +
               (j * tile_.rows() + m) * Config::kWarps;
    }

    template <int J>
    __device__ __forceinline__ void sum_inner(const F& f, Number<J> j, const Batch& kept, I32 b,
                                              I32 m) const {
        const Stats stats = statistics<J>(f, b, m);
        Acc sum = 0;
        for_each_loaded(f, kept, b, m, [&](I32 k, const Early& early) {
#pragma unroll
            for (I32 v = 0; v < F::kWidth; ++v)
                sum += f.stat_term(j, b, tile_.m.begin + m, k, v, stats.values, early);
        });
        add_lanes(J, m, sum);
    }

    /// Stages a row; returns this thread's sums of the statistics that are not inner ones.
    [[nodiscard]] __device__ __forceinline__ Stats stage_row(const F& f, const Batch& kept, I32 b,
                                                             I32 m) const {
        Stats sums{};
        const Stats stats = statistics<F::kInner>(f, b, m);
        Element* row = reinterpret_cast<Element*>(scratch<Config>() + m * kRowBytes);
        for_each_loaded(f, kept, b, m, [&](I32 k, const Early& early) {
            const I32 at = tile_.m.begin + m;
            Acc values[F::kWidth];
#pragma unroll
            for (I32 v = 0; v < F::kWidth; ++v) {
                if constexpr (F::kInner < F::kStats) {
                    for_each_number<F::kInner, F::kStats>([&]<int J>(Number<J> j) {
                        sums.values[J] += f.stat_term(j, b, at, k, v, stats.values, early);
                    });
                }
                values[v] = f.left(b, at, k, v, stats.values, early);
            }
            write_group(row, k, values);
        });
        return sums;
    }

    /// Where element k of a row is. In panels the second and the third pair of each 8 change places (matmul_panels.h).
    [[nodiscard]] static __device__ __forceinline__ I32 place(I32 k) {
        return Panels ? (k & ~6) | (k & 2) << 1 | (k & 4) >> 1 : k;
    }

    static __device__ __forceinline__ void write_group(Element* row, I32 k, const Acc (&values)[F::kWidth]) {
        if constexpr (sizeof(Element) == 2 && F::kWidth % 2 == 0) {
            U32 pairs[F::kWidth / 2];
#pragma unroll
            for (I32 i = 0; i < F::kWidth / 2; ++i)
                pairs[i] = packed<Element>(values[2 * i], values[2 * i + 1]);
            if constexpr (Panels && F::kWidth == 8) {
                *reinterpret_cast<uint4*>(row + k) = make_uint4(pairs[0], pairs[2], pairs[1], pairs[3]);
            } else {
#pragma unroll
                for (I32 i = 0; i < F::kWidth / 2; ++i)
                    *reinterpret_cast<U32*>(row + place(k + 2 * i)) = pairs[i];
            }
        } else {
#pragma unroll
            for (I32 v = 0; v < F::kWidth; ++v) row[place(k + v)] = narrow<Element>(values[v]);
        }
    }

    /// Adds the lanes' sums of the statistics that are not inner ones.
    __device__ __forceinline__ void add_outer(const Stats& sums, I32 m) const {
        for_each_number<F::kInner, F::kStats>([&]<int J>(Number<J>) { add_lanes(J, m, sums.values[J]); });
    }

    __device__ __forceinline__ void add_lanes(int j, I32 m, Acc sum) const {
        sum = butterfly_sum(sum);
        const I32 thread = thread_here();
        if (thread % 32 == 0) partial(j, m)[thread / 32 % F::kRowWarps] = sum;
    }

    const MatMulTile<F>& tile_;
};

}  // namespace stretto::device
