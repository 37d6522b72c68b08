#pragma once

#include "stretto/operands.h"

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
/// layout of abi::matmul_scratch).
/// F: kB, kM, kK, kStats, kInner, Left (element), Acc, LeftEarly, load_left(b, m, k) giving a LeftEarly whose words may be
/// missing, left(b, m, k, stat, early), stat_term(Number<j>, b, m, k, stat, early), stat_finish(Number<j>, b, m, sum, stat);
/// `stat` holds the earlier statistics. The first kInner of them must be known before the left side and the terms of
/// the others, which are summed while the left side is staged.
/// Panels: rows are laid out for the tensor cores of MatMulPanels; `row` then gives bytes, not elements in order.
template <class F, class Config, bool Panels = false>
class LeftSide {
public:
    using Acc = typename F::Acc;
    using Element = typename F::Left;
    static constexpr I32 kRowBytes = static_cast<I32>(abi::left_row_bytes(F::kK, sizeof(Element), Panels));
    static constexpr int kRounds = (F::kK + Config::kThreads - 1) / Config::kThreads;
    /// A single row's last step of summing waits for `finish`.
    static constexpr bool kFinishesLate = F::kM == 1 && F::kInner < F::kStats;
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
        Batch<1> kept{};
        if constexpr (kIsKept) kept = load<1>(f, b, 0, 0);
        for_each_number<0, F::kInner>([&]<int J>(Number<J> j) {
            for (I32 m = 0; m < tile_.rows(); ++m) sum_inner(f, j, kept, b, m);
            consumer_barrier<Config>();
        });
        Stats sums[kRowsAhead];
        for (I32 m = 0; m < tile_.rows(); m += kRowsAhead) {
            stage_rows(f, kept, b, m, sums);
            if constexpr (!kFinishesLate) {
#pragma unroll
                for (int i = 0; i < kRowsAhead; ++i) {
                    if (m + i < tile_.rows()) add_outer(sums[i], m + i);
                }
            }
        }
        consumer_barrier<Config>();
        return sums[0];
    }

    /// Ends the sums of the statistics that the stores use, some work after the staging; a barrier must follow before
    /// `statistics` of all.
    __device__ __forceinline__ void finish(const Stats& sums) const {
        if constexpr (kFinishesLate) add_outer(sums, 0);
    }

    /// The first `Count` statistics of a row, from the partial sums of all warps.
    template <int Count>
    [[nodiscard]] __device__ __forceinline__ Stats statistics(const F& f, I32 b, I32 m) const {
        Stats stats{};
        if constexpr (Count > 0) {
            for_each_number<0, Count>([&]<int J>(Number<J> j) {
                const Acc* sums = partial(J, m);
                Acc sum = sums[0];
#pragma unroll
                for (int warp = 1; warp < Config::kWarps; ++warp) sum += sums[warp];
                stats.values[J] = f.stat_finish(j, b, tile_.m.begin + m, sum, stats.values);
            });
        }
        return stats;
    }

private:
    /// Elements that one thread loads before it uses the first, as many as 128 bytes of registers hold: rounds of a row,
    /// in batches of one size, and rows.
    static constexpr int kFit = 128 / static_cast<int>(sizeof(typename F::LeftEarly));
    static constexpr int kAhead = kFit < 1 ? 1 : kFit > 8 ? 8 : kFit;
    static constexpr int kBatches = (kRounds + kAhead - 1) / kAhead;
    static constexpr int kRoundsAhead = (kRounds + kBatches - 1) / kBatches;
    static constexpr int kRowsAhead = F::kM < kAhead / kRoundsAhead ? F::kM : kAhead / kRoundsAhead;
    /// What is loaded of a single row stays in registers for all that need it.
    static constexpr bool kIsKept = F::kM == 1 && kRounds <= kAhead;

    template <int Rows>
    struct Batch {
        typename F::LeftEarly values[Rows][kRoundsAhead];
    };

    /// Calls body(row, round, k) for this thread's elements of `Rows` rows from m on, from a round on.
    template <int Rows, class Body>
    __device__ __forceinline__ void for_each_of_batch(I32 m, I32 round, Body&& body) const {
        constexpr bool kAlwaysInside = kRounds % kRoundsAhead == 0 && kRounds * Config::kThreads == F::kK;
        const I32 first = round * Config::kThreads + thread_here();
#pragma unroll
        for (int i = 0; i < Rows; ++i) {
#pragma unroll
            for (int r = 0; r < kRoundsAhead; ++r) {
                const I32 k = first + r * Config::kThreads;
                if ((Rows == 1 || m + i < tile_.rows()) && (kAlwaysInside || k < F::kK)) body(i, r, k);
            }
        }
    }

    /// Asks for everything before it looks at any answer; every round of polls asks for all that is missing.
    template <int Rows>
    [[nodiscard]] __device__ __forceinline__ Batch<Rows> load(const F& f, I32 b, I32 m, I32 round) const {
        Batch<Rows> batch{};
        const auto ask = [&](int i, int r, I32 k) {
            batch.values[i][r] = f.load_left(b, tile_.m.begin + m + i, k);
        };
        for_each_of_batch<Rows>(m, round, ask);
        if constexpr (F::LeftEarly::kWords) {
            const U32 tag = f.words.tag();
            const auto missing = [&] {
                U32 slot = kNoneMissing;
                for_each_of_batch<Rows>(m, round, [&](int i, int r, I32) {
                    if (!batch.values[i][r].ready(tag)) slot = batch.values[i][r].missing(tag);
                });
                return slot;
            };
            if (missing() != kNoneMissing) {
                f.words.wait([&] {
                    for_each_of_batch<Rows>(m, round, [&](int i, int r, I32 k) {
                        if (!batch.values[i][r].ready(tag)) ask(i, r, k);
                    });
                    return missing();
                });
            }
        }
        return batch;
    }

    /// Calls body(row, k, early) for this thread's elements of `Rows` rows from m on, those of a row in ascending order.
    template <int Rows, class Body>
    __device__ __forceinline__ void for_each_loaded(const F& f, const Batch<1>& kept, I32 b, I32 m,
                                                    Body&& body) const {
        if constexpr (kIsKept) {
            for_each_of_batch<1>(0, 0, [&](int i, int r, I32 k) { body(i, k, kept.values[i][r]); });
        } else {
#pragma unroll 1
            for (I32 round = 0; round < kRounds; round += kRoundsAhead) {
                const Batch<Rows> batch = load<Rows>(f, b, m, round);
                for_each_of_batch<Rows>(m, round,
                                        [&](int i, int r, I32 k) { body(i, k, batch.values[i][r]); });
            }
        }
    }

    [[nodiscard]] __device__ __forceinline__ Acc* partial(int j, I32 m) const {
        return reinterpret_cast<Acc*>(scratch<Config>() + tile_.rows() * kRowBytes) +
               (j * tile_.rows() + m) * Config::kWarps;
    }

    template <int J>
    __device__ __forceinline__ void sum_inner(const F& f, Number<J> j, const Batch<1>& kept, I32 b,
                                              I32 m) const {
        const Stats stats = statistics<J>(f, b, m);
        Acc sum = 0;
        for_each_loaded<1>(f, kept, b, m, [&](int, I32 k, const typename F::LeftEarly& early) {
            sum += f.stat_term(j, b, tile_.m.begin + m, k, stats.values, early);
        });
        add_lanes(J, m, sum);
    }

    /// Where element k of a row is. In panels the second and the third pair of each 8 change places (matmul_panels.h).
    [[nodiscard]] static __device__ __forceinline__ I32 place(I32 k) {
        return Panels ? (k & ~6) | (k & 2) << 1 | (k & 4) >> 1 : k;
    }

    /// Stages kRowsAhead rows from m on; `sums` becomes this thread's sums of the statistics that are not inner ones.
    __device__ __forceinline__ void stage_rows(const F& f, const Batch<1>& kept, I32 b, I32 m,
                                               Stats (&sums)[kRowsAhead]) const {
        Stats stats[kRowsAhead];
#pragma unroll
        for (int i = 0; i < kRowsAhead; ++i) {
            sums[i] = {};
            stats[i] = statistics<F::kInner>(f, b, min(m + i, tile_.rows() - 1));
        }
        for_each_loaded<kRowsAhead>(f, kept, b, m, [&](int i, I32 k, const typename F::LeftEarly& early) {
            const I32 at = tile_.m.begin + m + i;
            if constexpr (F::kInner < F::kStats) {
                for_each_number<F::kInner, F::kStats>([&]<int J>(Number<J> j) {
                    sums[i].values[J] += f.stat_term(j, b, at, k, stats[i].values, early);
                });
            }
            Element* row = reinterpret_cast<Element*>(scratch<Config>() + (m + i) * kRowBytes);
            row[place(k)] = narrow<Element>(f.left(b, at, k, stats[i].values, early));
        });
    }

    /// Adds the lanes' sums of the statistics that are not inner ones.
    __device__ __forceinline__ void add_outer(const Stats& sums, I32 m) const {
        for_each_number<F::kInner, F::kStats>([&]<int J>(Number<J>) { add_lanes(J, m, sums.values[J]); });
    }

    __device__ __forceinline__ void add_lanes(int j, I32 m, Acc sum) const {
        sum = butterfly_sum(sum);
        const I32 thread = thread_here();
        if (thread % 32 == 0) partial(j, m)[thread / 32] = sum;
    }

    const MatMulTile<F>& tile_;
};

}  // namespace stretto::device
