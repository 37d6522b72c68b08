#pragma once

#include "stretto/kinds/left_side.h"
#include "stretto/tile/vector.h"

namespace stretto::device {

/// Product of few rows with weights read from global memory, 16 bytes at a time, many on their way together.
/// Where the columns of a weight are neighbours (kWeightColumn), a task has up to kColumns of them, and as many lanes as read
/// them in one k: such groups of lanes take k = g, g + groups, ...; those of a warp meet in a butterfly, and the warps' sums are
/// added in the order of warps. Where values of k are neighbours, a column is a group's whose lanes take its pieces of 16
/// bytes in turn, and meet in a butterfly.
/// F: as for MatMulDirect, with weight_at(Number<j>, b, n, k), an element's address, instead of weight; at most eight rows.
template <class F>
class MatMulWide {
    using Element = typename F::Left;
    using Acc = typename F::Acc;
    static constexpr I32 kPiece = 16 / static_cast<I32>(sizeof(Element));
    using Piece = Vector<Element, kPiece>;
    static constexpr I32 kRows = F::kM < 8 ? F::kM : 8;
    /// Pieces that a thread asks for before it uses the first.
    static constexpr I32 kMostAhead = kRows * F::kWeights > 2 ? 8 : 16;

    /// So many of `rounds` at a time: batches of one size.
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
        const LeftSide<F, Config> left(tile);
        for (I32 b = tile.b.begin; b < tile.b.end; ++b) {
            auto early = load_first_store(f, b, tile);
            left.finish(left.stage(f, b));
            stamp<Config>(launch, record.task, &abi::TaskStamps::staged);
            if constexpr (F::kWeightColumn) {
                sum_columns<Config>(f, b, tile, left);
            } else {
                sum_rows<Config>(f, b, tile, left);
            }
            consumer_barrier<Config>();
            store<Config>(f, b, tile, left, early);
            if (b + 1 < tile.b.end) consumer_barrier<Config>();
        }
        return cursor;
    }

private:
    /// Sums over lanes that are `Apart`, twice as much, ... up to `End` apart.
    template <I32 Apart, I32 End>
    static __device__ __forceinline__ Acc butterfly_of(Acc sum) {
#pragma unroll
        for (I32 apart = Apart; apart < End; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        return sum;
    }

    /// Calls take(Number<count>, Number<whole>, round) for all rounds, batch by batch: whole where all lanes have all of them, of
    /// `items` that lanes take `across` at a time.
    template <I32 Items, I32 Across, I32 Together, class Take>
    static __device__ __forceinline__ void for_each_batch(const Take& take) {
        constexpr I32 kRounds = (Items + Across - 1) / Across;
        constexpr I32 kAhead = batch(kRounds, Together);
        constexpr I32 kWhole = Items / Across / kAhead * kAhead;
#pragma unroll 1
        for (I32 round = 0; round < kWhole; round += kAhead) take(Number<kAhead>(), Number<1>(), round);
        constexpr int kExact = Items % Across == 0;
        if constexpr (kWhole < kRounds) take(Number<kRounds - kWhole>(), Number<kExact>(), kWhole);
    }

    template <class Config>
    static __device__ __forceinline__ void sum_columns(const F& f, I32 b, const MatMulTile<F>& tile,
                                                       const LeftSide<F, Config>& left) {
        constexpr I32 kAcross = F::kColumns / kPiece;  // lanes of a group
        static_assert(kAcross >= 1 && 32 % kAcross == 0);
        constexpr I32 kGroups = Config::kThreads / kAcross;
        const I32 group = thread_here() / kAcross;
        const I32 column = thread_here() % kAcross * kPiece;
        const I32 n = tile.n.begin + min(column, tile.columns() - kPiece);
        Acc sums[F::kWeights][kRows][kPiece] = {};
        for_each_batch<F::kK, kGroups, F::kWeights>(
            [&]<int Count, int Whole>(Number<Count>, Number<Whole>, I32 round) {
                const I32 first = group + round * kGroups;
                const auto k = [&](I32 i) {
                    return Whole ? first + i * kGroups : min(first + i * kGroups, F::kK - 1);
                };
                Piece pieces[Count][F::kWeights];
#pragma unroll
                for (I32 i = 0; i < Count; ++i) {
                    for_each_number<0, F::kWeights>([&]<int J>(Number<J> j) {
                        pieces[i][J] = read_vector<kPiece>(f.weight_at(j, b, n, k(i)));
                    });
                }
#pragma unroll
                for (I32 i = 0; i < Count; ++i) {
                    if (!Whole && first + i * kGroups >= F::kK) continue;
#pragma unroll
                    for (I32 m = 0; m < kRows; ++m) {
                        const Acc a = static_cast<Acc>(widen(left.row(row_of(m, tile))[k(i)]));
#pragma unroll
                        for (int j = 0; j < F::kWeights; ++j) {
#pragma unroll
                            for (I32 v = 0; v < kPiece; ++v) {
                                Acc& sum = sums[j][m][v];
                                sum = multiply_add(a, static_cast<Acc>(pieces[i][j].value(v)), sum);
                            }
                        }
                    }
                }
            });
        const I32 outputs = tile.rows() * tile.columns();
        Acc* slices = left.rest() + thread_here() / 32 * F::kWeights * outputs;
        const bool stores = thread_here() % 32 < kAcross && column < tile.columns();
#pragma unroll
        for (int j = 0; j < F::kWeights; ++j) {
#pragma unroll
            for (I32 m = 0; m < kRows; ++m) {
#pragma unroll
                for (I32 v = 0; v < kPiece; ++v) {
                    const Acc sum = butterfly_of<kAcross, 32>(sums[j][m][v]);
                    if (stores && m < tile.rows())
                        slices[j * outputs + m * tile.columns() + column + v] = sum;
                }
            }
        }
    }

    template <class Config>
    static __device__ __forceinline__ void sum_rows(const F& f, I32 b, const MatMulTile<F>& tile,
                                                    const LeftSide<F, Config>& left) {
        constexpr I32 kPieces = F::kK / kPiece;
        constexpr I32 kAlong = kPieces > 16 ? 32 : kPieces > 8 ? 16 : kPieces > 4 ? 8 : kPieces > 2 ? 4 : 2;
        constexpr I32 kAtOnce = 32 / kAlong;  // columns of a warp, one for each group of lanes
        constexpr I32 kRounds = (kPieces + kAlong - 1) / kAlong;
        // Columns of a group that share the reads of the left side.
        constexpr I32 kTogether = kRounds >= 8 || kRows * F::kWeights > 2 ? 1 : kRounds >= 4 ? 2 : 4;
        const I32 outputs = tile.rows() * tile.columns();
        const I32 own = thread_here() % kAlong;
        const I32 group = thread_here() % 32 / kAlong;
#pragma unroll 1
        for (I32 first = thread_here() / 32 * kAtOnce * kTogether; first < tile.columns();
             first += Config::kWarps * kAtOnce * kTogether) {
            Acc sums[kTogether][F::kWeights][kRows] = {};
            const auto column = [&](I32 t) { return first + t * kAtOnce + group; };
            for_each_batch<kPieces, kAlong, kTogether * F::kWeights>(
                [&]<int Count, int Whole>(Number<Count>, Number<Whole>, I32 round) {
                    const auto piece = [&](I32 i) { return (round + i) * kAlong + own; };
                    const auto k = [&](I32 i) {
                        return (Whole ? piece(i) : min(piece(i), kPieces - 1)) * kPiece;
                    };
                    Piece pieces[Count][kTogether][F::kWeights];
#pragma unroll
                    for (I32 i = 0; i < Count; ++i) {
#pragma unroll
                        for (I32 t = 0; t < kTogether; ++t) {
                            const I32 n = tile.n.begin + min(column(t), tile.columns() - 1);
                            for_each_number<0, F::kWeights>([&]<int J>(Number<J> j) {
                                pieces[i][t][J] = read_vector<kPiece>(f.weight_at(j, b, n, k(i)));
                            });
                        }
                    }
#pragma unroll
                    for (I32 i = 0; i < Count; ++i) {
                        if (!Whole && piece(i) >= kPieces) continue;
#pragma unroll
                        for (I32 m = 0; m < kRows; ++m) {
                            const Piece a = read_vector<kPiece>(left.row(row_of(m, tile)) + k(i));
#pragma unroll
                            for (I32 t = 0; t < kTogether; ++t) {
#pragma unroll
                                for (int j = 0; j < F::kWeights; ++j) {
#pragma unroll
                                    for (I32 v = 0; v < kPiece; ++v) {
                                        sums[t][j][m] = multiply_add(
                                            static_cast<Acc>(a.value(v)),
                                            static_cast<Acc>(pieces[i][t][j].value(v)), sums[t][j][m]);
                                    }
                                }
                            }
                        }
                    }
                });
#pragma unroll
            for (I32 t = 0; t < kTogether; ++t) {
#pragma unroll
                for (int j = 0; j < F::kWeights; ++j) {
#pragma unroll
                    for (I32 m = 0; m < kRows; ++m) {
                        const Acc sum = butterfly_of<1, kAlong>(sums[t][j][m]);
                        if (own == 0 && m < tile.rows() && column(t) < tile.columns())
                            left.rest()[j * outputs + m * tile.columns() + column(t)] = sum;
                    }
                }
            }
        }
    }

    /// Rows beyond the last repeat it; nobody stores them.
    static __device__ __forceinline__ I32 row_of(I32 m, const MatMulTile<F>& tile) {
        return F::kM == kRows && kRows == 1 ? 0 : min(m, tile.rows() - 1);
    }

    template <class Config>
    static __device__ __forceinline__ void store(const F& f, I32 b, const MatMulTile<F>& tile,
                                                 const LeftSide<F, Config>& left,
                                                 const typename F::Early& early) {
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
