#pragma once

#include "stretto/kinds/left_side.h"
#include "stretto/tile/vector.h"

namespace stretto::device {

/// Product of few rows with weights read from global memory, 16 bytes at a time, many on their way together: the first two
/// batches of a thread's pieces from before the left side is staged, and later ones beside the sums of those before.
/// Where the columns of a weight are neighbours (kWeightColumn), a task has up to kColumns of them, and as many lanes as read
/// them in one k: such groups of lanes take k = g, g + groups, ...; those of a warp meet in a butterfly, and the warps' sums are
/// added in the order of warps. Where values of k are neighbours, a column is a group's whose lanes take its pieces of 16
/// bytes in turn, and meet in a butterfly.
/// F: as for MatMulDirect, with weight_at(Number<j>, b, n, k), an element's address, instead of weight, and kConstant, where no
/// task writes the weights; at most eight rows.
template <class F>
class MatMulWide {
    using Element = typename F::Left;
    using Acc = typename F::Acc;
    static constexpr I32 kPiece = 16 / static_cast<I32>(sizeof(Element));
    using Piece = Vector<Element, kPiece>;
    static constexpr I32 kRows = F::kM < 8 ? F::kM : 8;
    template <class Config>
    using Left = LeftSide<F, Config, false, true>;
    /// Pieces of a batch at most.
    static constexpr I32 kMostAhead = kRows * F::kWeights > 2 ? 4 : 8;

    /// So many of `rounds` at a time, of `together` pieces each: batches of one size.
    static constexpr I32 batch(I32 rounds, I32 together) {
        const I32 most = kMostAhead / together > 1 ? kMostAhead / together : 1;
        const I32 batches = (rounds + most - 1) / most;
        return (rounds + batches - 1) / batches;
    }

public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const MatMulTile<F> tile(record);
        const Left<Config> left(tile);
        for (I32 b = tile.b.begin; b < tile.b.end; ++b) {
            if constexpr (F::kWeightColumn) {
                multiply<Config>(ColumnSums<Config>(f, b, tile, left), f, b, tile, left, record, launch);
            } else {
                multiply<Config>(RowSums<Config>(f, b, tile, left), f, b, tile, left, record, launch);
            }
            if (b + 1 < tile.b.end) consumer_barrier<Config>();
        }
        return cursor;
    }

private:
    template <class Config, class Sums>
    static __device__ __forceinline__ void multiply(Sums sums, const F& f, I32 b, const MatMulTile<F>& tile,
                                                    const Left<Config>& left, const abi::Record& record,
                                                    const abi::Launch& launch) {
        auto early = load_first_store(f, b, tile);
        typename Sums::Batch batches[2]{};
        sums.load(0, batches[0]);
        sums.load(1, batches[1]);
        left.finish(left.stage(f, b));
        stamp<Config>(launch, record.task, &abi::TaskStamps::staged);
#pragma unroll 1
        for (I32 i = 0; i < sums.count(); i += 2) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                sums.add(i + half, batches[half]);
                sums.load(i + half + 2, batches[half]);
            }
        }
        sums.finish();
        consumer_barrier<Config>();
        store<Config>(f, b, tile, left, early);
    }

    static __device__ __forceinline__ Piece weight_piece(const Element* at) {
        if constexpr (F::kConstant) return read_once<kPiece>(at);
        return read_vector<kPiece>(at);
    }

    /// Sums over lanes that are `Apart`, twice as much, ... up to `End` apart.
    template <I32 Apart, I32 End>
    static __device__ __forceinline__ Acc butterfly_of(Acc sum) {
#pragma unroll
        for (I32 apart = Apart; apart < End; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        return sum;
    }

    /// What one thread sums where columns are neighbours. Batches beyond the last are neither loaded nor added.
    template <class Config>
    class ColumnSums {
        static constexpr I32 kAcross = F::kColumns / kPiece;  // lanes of a group
        static_assert(kAcross >= 1 && 32 % kAcross == 0);
        static constexpr I32 kGroups = Config::kThreads / kAcross;
        static constexpr I32 kRounds = (F::kK + kGroups - 1) / kGroups;
        static constexpr I32 kAhead = batch(kRounds, F::kWeights);
        static constexpr I32 kBatches = (kRounds + kAhead - 1) / kAhead;
        static constexpr bool kAllWhole = kBatches * kAhead * kGroups == F::kK;

    public:
        struct Batch {
            Piece pieces[kAhead][F::kWeights];
        };

        __device__ __forceinline__ ColumnSums(const F& f, I32 b, const MatMulTile<F>& tile,
                                              const Left<Config>& left)
            : f_(f), tile_(tile), left_(left), b_(b) {}

        [[nodiscard]] static __device__ __forceinline__ I32 count() { return kBatches; }

        __device__ __forceinline__ void load(I32 i, Batch& batch) const {
            if (i >= kBatches) return;
            const I32 n = tile_.n.begin + min(column(), tile_.columns() - kPiece);
#pragma unroll
            for (I32 r = 0; r < kAhead; ++r) {
                for_each_number<0, F::kWeights>([&]<int J>(Number<J> j) {
                    batch.pieces[r][J] = weight_piece(f_.weight_at(j, b_, n, inside(k(i, r))));
                });
            }
        }

        __device__ __forceinline__ void add(I32 i, const Batch& batch) {
            if (i >= kBatches) return;
#pragma unroll
            for (I32 m = 0; m < kRows; ++m) {
                Acc a[kAhead];
#pragma unroll
                for (I32 r = 0; r < kAhead; ++r)
                    a[r] = static_cast<Acc>(widen(left_.row(row_of(m, tile_))[inside(k(i, r))]));
#pragma unroll
                for (I32 r = 0; r < kAhead; ++r) {
                    if (!kAllWhole && k(i, r) >= F::kK) continue;
#pragma unroll
                    for (int j = 0; j < F::kWeights; ++j) {
#pragma unroll
                        for (I32 v = 0; v < kPiece; ++v) {
                            Acc& sum = sums_[j][m][v];
                            sum = multiply_add(a[r], static_cast<Acc>(batch.pieces[r][j].value(v)), sum);
                        }
                    }
                }
            }
        }

        __device__ __forceinline__ void finish() {
            const I32 outputs = tile_.rows() * tile_.columns();
            Acc* slices = left_.rest() + thread_here() / 32 * F::kWeights * outputs;
            const bool stores = thread_here() % 32 < kAcross && column() < tile_.columns();
#pragma unroll
            for (int j = 0; j < F::kWeights; ++j) {
#pragma unroll
                for (I32 m = 0; m < kRows; ++m) {
#pragma unroll
                    for (I32 v = 0; v < kPiece; ++v) {
                        const Acc sum = butterfly_of<kAcross, 32>(sums_[j][m][v]);
                        if (stores && m < tile_.rows())
                            slices[j * outputs + m * tile_.columns() + column() + v] = sum;
                    }
                }
            }
        }

    private:
        [[nodiscard]] static __device__ __forceinline__ I32 column() {
            return thread_here() % kAcross * kPiece;
        }
        [[nodiscard]] static __device__ __forceinline__ I32 k(I32 i, I32 r) {
            return (i * kAhead + r) * kGroups + thread_here() / kAcross;
        }
        [[nodiscard]] static __device__ __forceinline__ I32 inside(I32 k) {
            return kAllWhole ? k : min(k, F::kK - 1);
        }

        const F& f_;
        const MatMulTile<F>& tile_;
        const Left<Config>& left_;
        I32 b_;
        Acc sums_[F::kWeights][kRows][kPiece] = {};
    };

    /// What one warp sums where values of k are neighbours: some columns, as many as its groups of lanes have together, and
    /// then the next ones.
    template <class Config>
    class RowSums {
        static constexpr I32 kPieces = F::kK / kPiece;
        static constexpr I32 kAlong = kPieces > 16  ? 32
                                      : kPieces > 8 ? 16
                                      : kPieces > 4 ? 8
                                      : kPieces > 2 ? 4
                                                    : 2;
        static constexpr I32 kAtOnce = 32 / kAlong;  // columns of a warp, one for each group of lanes
        static constexpr I32 kRounds = (kPieces + kAlong - 1) / kAlong;
        /// Columns of a group that share the reads of the left side, and are on their way together.
        static constexpr I32 kTogether = kRounds >= 5 || kRows * F::kWeights > 2 ? 1 : kRounds >= 3 ? 2 : 4;
        static constexpr I32 kAhead = batch(kRounds, kTogether* F::kWeights);
        static constexpr I32 kBatches = (kRounds + kAhead - 1) / kAhead;  // of one step
        static constexpr bool kAllWhole = kBatches * kAhead * kAlong == kPieces;
        static constexpr I32 kStep = Config::kWarps * kAtOnce * kTogether;

    public:
        struct Batch {
            Piece pieces[kAhead][kTogether][F::kWeights];
        };

        __device__ __forceinline__ RowSums(const F& f, I32 b, const MatMulTile<F>& tile,
                                           const Left<Config>& left)
            : f_(f), tile_(tile), left_(left), b_(b) {
            const I32 columns = tile.columns() - thread_here() / 32 * kAtOnce * kTogether;
            count_ = columns > 0 ? (columns + kStep - 1) / kStep * kBatches : 0;
        }

        [[nodiscard]] __device__ __forceinline__ I32 count() const { return count_; }

        __device__ __forceinline__ void load(I32 i, Batch& batch) const {
            if (i >= count_) return;
#pragma unroll
            for (I32 r = 0; r < kAhead; ++r) {
                const I32 at = kAllWhole ? piece(i, r) : min(piece(i, r), kPieces - 1);
#pragma unroll
                for (I32 t = 0; t < kTogether; ++t) {
                    const I32 n = tile_.n.begin + min(column(i, t), tile_.columns() - 1);
                    for_each_number<0, F::kWeights>([&]<int J>(Number<J> j) {
                        batch.pieces[r][t][J] = weight_piece(f_.weight_at(j, b_, n, at * kPiece));
                    });
                }
            }
        }

        __device__ __forceinline__ void add(I32 i, const Batch& batch) {
            if (i >= count_) return;
#pragma unroll
            for (I32 r = 0; r < kAhead; ++r) {
                if (!kAllWhole && piece(i, r) >= kPieces) continue;
#pragma unroll
                for (I32 m = 0; m < kRows; ++m) {
                    const Piece a = read_vector<kPiece>(left_.row(row_of(m, tile_)) + piece(i, r) * kPiece);
#pragma unroll
                    for (I32 t = 0; t < kTogether; ++t) {
#pragma unroll
                        for (int j = 0; j < F::kWeights; ++j) {
#pragma unroll
                            for (I32 v = 0; v < kPiece; ++v) {
                                sums_[t][j][m] = multiply_add(
                                    static_cast<Acc>(a.value(v)),
                                    static_cast<Acc>(batch.pieces[r][t][j].value(v)), sums_[t][j][m]);
                            }
                        }
                    }
                }
            }
            if (i % kBatches == kBatches - 1) end_step(i);
        }

        __device__ __forceinline__ void finish() {}

    private:
        [[nodiscard]] static __device__ __forceinline__ I32 own() { return thread_here() % kAlong; }
        [[nodiscard]] static __device__ __forceinline__ I32 piece(I32 i, I32 r) {
            return (i % kBatches * kAhead + r) * kAlong + own();
        }
        [[nodiscard]] static __device__ __forceinline__ I32 column(I32 i, I32 t) {
            const I32 first = thread_here() / 32 * kAtOnce * kTogether + i / kBatches * kStep;
            return first + t * kAtOnce + thread_here() % 32 / kAlong;
        }

        /// The lanes of each column meet; the next columns begin.
        __device__ __forceinline__ void end_step(I32 i) {
            const I32 outputs = tile_.rows() * tile_.columns();
#pragma unroll
            for (I32 t = 0; t < kTogether; ++t) {
#pragma unroll
                for (int j = 0; j < F::kWeights; ++j) {
#pragma unroll
                    for (I32 m = 0; m < kRows; ++m) {
                        const Acc sum = butterfly_of<1, kAlong>(sums_[t][j][m]);
                        if (own() == 0 && m < tile_.rows() && column(i, t) < tile_.columns())
                            left_.rest()[j * outputs + m * tile_.columns() + column(i, t)] = sum;
                        sums_[t][j][m] = 0;
                    }
                }
            }
        }

        const F& f_;
        const MatMulTile<F>& tile_;
        const Left<Config>& left_;
        I32 b_;
        I32 count_;
        Acc sums_[kTogether][F::kWeights][kRows] = {};
    };

    /// Rows beyond the last repeat it; nobody stores them.
    static __device__ __forceinline__ I32 row_of(I32 m, const MatMulTile<F>& tile) {
        return F::kM == kRows && kRows == 1 ? 0 : min(m, tile.rows() - 1);
    }

    template <class Config>
    static __device__ __forceinline__ void store(const F& f, I32 b, const MatMulTile<F>& tile,
                                                 const Left<Config>& left, const typename F::Early& early) {
        constexpr int kShares = F::kWeightColumn ? Config::kWarps : 1;
        const I32 outputs = tile.rows() * tile.columns();
        for (I32 output = thread_here(); output < outputs; output += Config::kThreads) {
            Acc acc[F::kWeights];
#pragma unroll
            for (int j = 0; j < F::kWeights; ++j) {
                const Acc* share = left.rest() + j * outputs + output;
                acc[j] = share[0];
#pragma unroll
                for (int s = 1; s < kShares; ++s) acc[j] += share[s * F::kWeights * outputs];
            }
            const I32 m = output / tile.columns();
            const I32 n = tile.n.begin + output % tile.columns();
            const auto load = [&] { return f.load(b, tile.m.begin + m, n); };
            auto values = tile.rows() == 1 && output == thread_here() ? early : load();
            await(f, values, load);
            const auto stats = left.template statistics<F::kStats>(f, b, m);
            f.store(b, tile.m.begin + m, n, acc, stats.values, values);
        }
    }
};

}  // namespace stretto::device
