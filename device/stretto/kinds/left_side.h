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

/// Calls body(round, k) for this thread's share of [0, Count): k = t, t + Stride, … in order.
template <int Count, int Stride, class Body>
__device__ __forceinline__ void for_each_of_thread(Body&& body) {
    constexpr int kWhole = Count / Stride;
#pragma unroll 16
    for (int round = 0; round < kWhole; ++round) body(round, round * Stride + static_cast<I32>(threadIdx.x));
    if constexpr (kWhole * Stride < Count) {
        const I32 last = kWhole * Stride + static_cast<I32>(threadIdx.x);
        if (last < Count) body(kWhole, last);
    }
}

/// The staged left side of a MatMul in scratch memory, and the partial sums of its row statistics behind it (the
/// layout of abi::matmul_scratch).
/// F: kB, kM, kK, kStats, kInner, Left (element), Acc, LeftEarly, load_left(b, m, k) giving a LeftEarly whose words may be
/// missing, left(b, m, k, stat, early), stat_term(Number<j>, b, m, k, stat, early), stat_finish(Number<j>, b, m, sum,
/// stat); `stat` holds the earlier statistics. The first kInner of them must be known before the left side and the terms
/// of the others, which are summed while the left side is staged.
/// Panels: rows are laid out for the tensor cores of MatMulPanels; `row` then gives bytes, not elements in order.
template <class F, class Config, bool Panels = false>
class LeftSide {
public:
    using Acc = typename F::Acc;
    using Element = typename F::Left;
    static constexpr I32 kRowBytes = static_cast<I32>(abi::left_row_bytes(F::kK, sizeof(Element), Panels));
    /// What a thread loads for a single row waits in registers: all loads are on their way before the first is used, words
    /// are polled all together, and each is read once.
    static constexpr int kRounds = (F::kK + Config::kThreads - 1) / Config::kThreads;
    static constexpr bool kLoadsEarly = F::kM == 1 && (F::kStats > 0 || F::LeftEarly::kWords) && kRounds <= 8;
    /// A single row's last step of summing waits for `finish`.
    static constexpr bool kFinishesLate = F::kM == 1 && F::kInner < F::kStats;
    struct Loaded {
        typename F::LeftEarly values[kLoadsEarly ? kRounds : 1];
    };
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
        const Loaded loaded = load_early(f, b);
        for_each_number<0, F::kInner>([&]<int J>(Number<J> j) {
            for (I32 m = 0; m < tile_.rows(); ++m) sum_inner(f, j, loaded, b, m);
            consumer_barrier<Config>();
        });
        Stats sums{};
        for (I32 m = 0; m < tile_.rows(); ++m) {
            sums = stage_row(f, loaded, b, m);
            if constexpr (!kFinishesLate) add_outer(sums, m);
        }
        consumer_barrier<Config>();
        return sums;
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
    [[nodiscard]] static __device__ __forceinline__ Loaded load_early(const F& f, I32 b) {
        Loaded loaded{};
        if constexpr (kLoadsEarly) {
            for_each_of_thread<F::kK, Config::kThreads>(
                [&](int round, I32 k) { loaded.values[round] = f.load_left(b, 0, k); });
            if constexpr (F::LeftEarly::kWords) await_words(f, b, loaded);
        }
        return loaded;
    }

    /// Every round asks for all that is missing before any answer is looked at.
    static __device__ __forceinline__ void await_words(const F& f, I32 b, Loaded& loaded) {
        const U32 tag = f.words.tag();
        U32 missing = kNoneMissing;
        const auto look = [&](int round, I32) {
            if (!loaded.values[round].ready(tag)) missing = loaded.values[round].missing(tag);
        };
        for_each_of_thread<F::kK, Config::kThreads>(look);
        if (missing == kNoneMissing) return;
        f.words.wait([&] {
            for_each_of_thread<F::kK, Config::kThreads>([&](int round, I32 k) {
                if (!loaded.values[round].ready(tag)) loaded.values[round] = f.load_left(b, 0, k);
            });
            missing = kNoneMissing;
            for_each_of_thread<F::kK, Config::kThreads>(look);
            return missing;
        });
    }

    [[nodiscard]] __device__ __forceinline__ typename F::LeftEarly early(const F& f, const Loaded& loaded,
                                                                         I32 b, I32 m, int round,
                                                                         I32 k) const {
        if constexpr (kLoadsEarly) {
            return loaded.values[round];
        } else {
            const auto load = [&] { return f.load_left(b, tile_.m.begin + m, k); };
            auto values = load();
            await(f, values, load);
            return values;
        }
    }

    [[nodiscard]] __device__ __forceinline__ Acc* partial(int j, I32 m) const {
        return reinterpret_cast<Acc*>(scratch<Config>() + tile_.rows() * kRowBytes) +
               (j * tile_.rows() + m) * Config::kWarps;
    }

    template <int J>
    __device__ __forceinline__ void sum_inner(const F& f, Number<J> j, const Loaded& loaded, I32 b,
                                              I32 m) const {
        const Stats stats = statistics<J>(f, b, m);
        Acc sum = 0;
        for_each_of_thread<F::kK, Config::kThreads>([&](int round, I32 k) {
            sum += f.stat_term(j, b, tile_.m.begin + m, k, stats.values, early(f, loaded, b, m, round, k));
        });
        add_lanes(J, m, sum);
    }

    /// Where element k of a row is. In panels the second and the third pair of each 8 change places (matmul_panels.h).
    [[nodiscard]] static __device__ __forceinline__ I32 place(I32 k) {
        return Panels ? (k & ~6) | (k & 2) << 1 | (k & 4) >> 1 : k;
    }

    /// Stages one row; this thread's sums of the statistics that are not needed for it.
    [[nodiscard]] __device__ __forceinline__ Stats stage_row(const F& f, const Loaded& loaded, I32 b,
                                                             I32 m) const {
        const Stats stats = statistics<F::kInner>(f, b, m);
        Stats sums{};
        Element* row = reinterpret_cast<Element*>(scratch<Config>() + m * kRowBytes);
        const I32 at = tile_.m.begin + m;
        for_each_of_thread<F::kK, Config::kThreads>([&](int round, I32 k) {
            const typename F::LeftEarly values = early(f, loaded, b, m, round, k);
            if constexpr (F::kInner < F::kStats) {
                for_each_number<F::kInner, F::kStats>([&]<int J>(Number<J> j) {
                    sums.values[J] += f.stat_term(j, b, at, k, stats.values, values);
                });
            }
            row[place(k)] = narrow<Element>(f.left(b, at, k, stats.values, values));
        });
        return sums;
    }

    /// Adds the lanes' sums of the statistics that are not inner ones.
    __device__ __forceinline__ void add_outer(const Stats& sums, I32 m) const {
        for_each_number<F::kInner, F::kStats>([&]<int J>(Number<J>) { add_lanes(J, m, sums.values[J]); });
    }

    __device__ __forceinline__ void add_lanes(int j, I32 m, Acc sum) const {
        sum = butterfly_sum(sum);
        if (threadIdx.x % 32 == 0) partial(j, m)[threadIdx.x / 32] = sum;
    }

    const MatMulTile<F>& tile_;
};

}  // namespace stretto::device
