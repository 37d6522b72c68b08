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
/// layout of abi::matmul_scratch). Rows are staged side by side, each by kRowWarps warps, kWidth neighbours a thread; long
/// ones in parts of kStaged values of k, one after the other in the same place.
/// F: kB, kM, kK, kStats, kInner, kWidth, kRowWarps, kStaged, Left (element), Acc, LeftEarly, load_left(b, m, k) giving a LeftEarly of
/// kWidth neighbours whose words may be missing; of neighbour v left(b, m, k, v, stat, early) and stat_term(Number<j>, b, m,
/// k, v, stat, early); stat_finish(Number<j>, b, m, sum, stat); `stat` holds the earlier statistics. The first kInner of them
/// must be known before the left side and the terms of the others, which are summed while the left side is staged.
/// Panels: rows are laid out for the tensor cores of MatMulPanels; `row` then gives bytes, not elements in order.
/// Beside: other loads of the threads are on their way meanwhile, and hold registers.
template <class F, class Config, bool Panels = false, bool Beside = false>
class LeftSide {
    /// Rows that are staged at one time. A thread may have several, of the eight that a task has at most, one after the
    /// other, unless kOneRowEach.
    static constexpr I32 kRowsTogether = Config::kWarps / F::kRowWarps;
    static constexpr bool kOneRowEach = (F::kM < 8 ? F::kM : 8) <= kRowsTogether;

public:
    using Acc = typename F::Acc;
    using Element = typename F::Left;
    static constexpr I32 kRowBytes =
        static_cast<I32>(abi::left_row_bytes(F::kStaged, sizeof(Element), Panels));
    static constexpr I32 kParts = (F::kK + F::kStaged - 1) / F::kStaged;
    /// The last step of summing waits for `finish`.
    static constexpr bool kFinishesLate = kOneRowEach && F::kInner < F::kStats;
    static_assert(kParts == 1 || kOneRowEach || F::kInner == F::kStats,
                  "the sums of a row that comes in parts stay with its threads");
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

private:
    using Early = typename F::LeftEarly;
    static constexpr I32 kRowThreads = F::kRowWarps * 32;
    static constexpr I32 kGroups = F::kStaged / F::kWidth;  ///< of neighbours, in a row of one part
    static constexpr int kRounds = (kGroups + kRowThreads - 1) / kRowThreads;
    /// Groups that one thread loads before it uses the first, as many as some registers hold, in batches of one size.
    /// A part's loads are on their way while the part before is multiplied; sums of several weights hold registers, too.
    /// What words of several rows miss is asked for again: in longer batches that takes the cache from their writers, and
    /// pays only where it spares a second batch.
    static constexpr int kShort = 128;
    static constexpr int kBytesAhead = kParts > 1 && F::kWeights > 1 ? 96
                                       : Beside || kParts > 1        ? kShort
                                       : F::kM > 1 && Early::kWords
                                           ? (kRounds * sizeof(Early) <= 176 ? 176 : kShort)
                                           : 192;
    static constexpr int kFit = kBytesAhead / static_cast<int>(sizeof(Early));
    static constexpr int kAhead = kFit < 1 ? 1 : kFit > 12 ? 12 : kFit;
    static constexpr int kBatches = (kRounds + kAhead - 1) / kAhead;
    static constexpr int kRoundsAhead = (kRounds + kBatches - 1) / kBatches;
    /// What a thread loads of a part stays in registers for all that need it.
    static constexpr bool kIsKept = kOneRowEach && kBatches == 1;

public:
    /// What one thread has loaded and not yet used.
    struct Batch {
        Early values[kRoundsAhead];
    };

    /// Evaluates the prologue for all rows of batch `b`. Every consumer thread takes part; ends with their barrier.
    /// `finish` takes the result.
    [[nodiscard]] __device__ __forceinline__ Stats stage(const F& f, I32 b) const {
        static_assert(kParts == 1);
        Stats sums{};
        stage_part(f, b, 0, begin(f, b), sums);
        return sums;
    }

    /// Loads the first part, as far as registers hold it, and sums the inner statistics.
    [[nodiscard]] __device__ __forceinline__ Batch begin(const F& f, I32 b) const {
        const Batch kept = fetch(f, b, 0);
        for_each_number<0, F::kInner>([&]<int J>(Number<J> j) {
            for_each_row([&](I32 m) { sum_inner(f, j, kept, b, m); });
            consumer_barrier<Config>();
        });
        return kept;
    }

    /// Loads the part from k = `first` on, where registers hold a whole one and there is one.
    [[nodiscard]] __device__ __forceinline__ Batch fetch(const F& f, I32 b, I32 first) const {
        Batch batch{};
        if constexpr (kIsKept) {
            if (first_row() < tile_.rows() && first < F::kK) batch = load(f, b, first_row(), first, 0);
        }
        return batch;
    }

    /// Stages the part that was fetched; ends with a barrier. `sums` are this thread's sums of the statistics that the
    /// stores use, of all parts so far.
    __device__ __forceinline__ void stage_part(const F& f, I32 b, I32 first, const Batch& fetched,
                                               Stats& sums) const {
        for_each_row([&](I32 m) {
            stage_row(f, fetched, b, m, first, sums);
            if constexpr (!kFinishesLate) {
                add_outer(sums, m);
                sums = {};
            }
        });
        consumer_barrier<Config>();
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

    /// Calls body(round, k) for this thread's groups of a row of the part from `part` on, from a round on.
    template <class Body>
    static __device__ __forceinline__ void for_each_of_batch(I32 part, I32 round, Body&& body) {
        constexpr bool kAlwaysInside =
            kRounds % kRoundsAhead == 0 && kRounds * kRowThreads == kGroups && F::kK % F::kStaged == 0;
        const I32 first = round * kRowThreads + thread_here() % kRowThreads;
        const I32 groups = kParts == 1 ? kGroups : min(kGroups, (F::kK - part) / F::kWidth);
#pragma unroll
        for (int r = 0; r < kRoundsAhead; ++r) {
            const I32 group = first + r * kRowThreads;
            if (kAlwaysInside || group < groups) body(r, part + group * F::kWidth);
        }
    }

    /// Asks for everything before it looks at any answer; every round of polls asks for all that is missing.
    [[nodiscard]] __device__ __forceinline__ Batch load(const F& f, I32 b, I32 m, I32 part, I32 round) const {
        Batch batch{};
        const auto ask = [&](int r, I32 k) { batch.values[r] = f.load_left(b, tile_.m.begin + m, k); };
        for_each_of_batch(part, round, ask);
        if constexpr (Early::kWords) {
            const U32 tag = f.words.tag();
            const auto missing = [&] {
                U32 slot = kNoneMissing;
                for_each_of_batch(part, round, [&](int r, I32) {
                    if (!batch.values[r].ready(tag)) slot = batch.values[r].missing(tag);
                });
                return slot;
            };
            if (missing() != kNoneMissing) {
                f.words.wait([&] {
                    for_each_of_batch(part, round, [&](int r, I32 k) {
                        if (!batch.values[r].ready(tag)) ask(r, k);
                    });
                    return missing();
                });
            }
        }
        return batch;
    }

    /// Calls body(k, early) for this thread's groups of row m in a part, in ascending order.
    template <class Body>
    __device__ __forceinline__ void for_each_loaded(const F& f, const Batch& kept, I32 b, I32 m, I32 part,
                                                    Body&& body) const {
        if constexpr (kIsKept) {
            for_each_of_batch(part, 0, [&](int r, I32 k) { body(k, kept.values[r]); });
        } else {
#pragma unroll 1
            for (I32 round = 0; round < kRounds; round += kRoundsAhead) {
                const Batch batch = load(f, b, m, part, round);
                for_each_of_batch(part, round, [&](int r, I32 k) { body(k, batch.values[r]); });
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
        for (I32 part = 0; part < F::kK; part += F::kStaged) {
            const Batch batch = part == 0 ? kept : fetch(f, b, part);
            for_each_loaded(f, batch, b, m, part, [&](I32 k, const Early& early) {
#pragma unroll
                for (I32 v = 0; v < F::kWidth; ++v)
                    sum += f.stat_term(j, b, tile_.m.begin + m, k, v, stats.values, early);
            });
        }
        add_lanes(J, m, sum);
    }

    /// Stages a row of the part from `part` on; adds this thread's terms of the statistics that are not inner ones.
    __device__ __forceinline__ void stage_row(const F& f, const Batch& kept, I32 b, I32 m, I32 part,
                                              Stats& sums) const {
        const Stats stats = statistics<F::kInner>(f, b, m);
        Element* row = reinterpret_cast<Element*>(scratch<Config>() + m * kRowBytes);
        for_each_loaded(f, kept, b, m, part, [&](I32 k, const Early& early) {
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
            write_group(row, k - part, values);
        });
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
