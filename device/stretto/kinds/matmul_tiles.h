#pragma once

#include "stretto/kinds/tile_ranges.h"
#include "stretto/tile/group_tile.h"
#include "stretto/tile/scalar_tile.h"
#include "stretto/tile/vector.h"
#include "stretto/tile/warp_tile.h"

namespace stretto::device {

/// Product of many rows, whose operands are copied to shared memory as they lie in memory: blocks of k in several stages,
/// so that the copies of later blocks run beside the products of one. Each result is summed in ascending k by one warp.
/// F: kB, kM, kK, kWeights, kTileRows, kTileColumns, kStages, kRowLines (of a row in a block: more than 1 only of F32), Left
/// (element), Acc; of each operand whether its rows are
/// neighbours (kLeftColumn, kWeightColumn) and how many elements always lie together (kLeftGrain, kWeightGrain), and
/// the address of an element: left_at(b, m, k), weight_at(Number<j>, b, n, k); load and store as for MatMul. Where kRagged,
/// only begin(b, m) <= k < end(b, m) counts, which differ between rows of a batch where kRaggedRows. Where kRest, columns end
/// in less than a group of kVector.
template <class F>
class MatMulTiles {
    using Element = typename F::Left;
    static constexpr I32 kRowLines = F::kRowLines;
    static constexpr I32 kDepth = kLineElements<Element> * kRowLines;
    static constexpr U32 kLeftBytes = F::kTileRows * kRowLines * abi::kLineBytes;
    static constexpr U32 kWeightBytes = F::kTileColumns * kRowLines * abi::kLineBytes;
    static constexpr U32 kStageBytes = kLeftBytes + F::kWeights * kWeightBytes;

    template <class Config>
    using Ranges = TileRanges<F, Config>;

    /// The way of multiplying that an element and the machine allow.
    template <class Config, class T>
    struct Choice {
        using Portable = WarpTile<Config, T, F::kTileRows, F::kTileColumns, F::kLeftColumn, F::kWeightColumn>;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
        using Grouped = GroupTile<Config, T, F::kTileRows, F::kTileColumns, F::kLeftColumn, F::kWeightColumn>;
        using Type = typename Selected<Grouped::kFits, Grouped, Portable>::Type;
#else
        using Type = Portable;
#endif
    };
    template <class Config>
    struct Choice<Config, float> {
        using Type = ScalarTile<Config, float, F::kTileRows, F::kTileColumns, F::kLeftColumn,
                                F::kWeightColumn, kRowLines, (F::kK > abi::kLongSum)>;
    };
    template <class Config>
    using Chosen = typename Choice<Config, Element>::Type;
    using Early = typename EarlyOf<F>::Type;

public:
    /// Do products run beside what follows their start (wgmma)?
    template <class Config>
    static constexpr bool kRunsAhead = Chosen<Config>::kRunning > 0;

    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const MatMulTile<F> tile(record);
        for (I32 b = tile.b.begin; b < tile.b.end; ++b) {
            typename Chosen<Config>::Sums sums[F::kWeights] = {};
            if constexpr (kRunsAhead<Config>) {
                multiply<Config>(f, b, tile, sums, [] {});
                lay_out<Config>(sums);
                store_apart<Config>(record, launch_parameter(), b);
            } else if constexpr (Rounds<Config>::kOwn == 1) {
                // All that a thread's results load is on its way beside the first blocks.
                Ends<Config> ends;
                multiply<Config>(f, b, tile, sums, [&] { ends.load(f, b, tile); });
                lay_out<Config>(sums);
                store<Config>(f, b, tile, ends);
            } else {
                multiply<Config>(f, b, tile, sums, [] {});
                lay_out<Config>(sums);
                store<Config>(f, b, tile);
            }
            if (b + 1 < tile.b.end) consumer_barrier<Config>();
        }
        return cursor;
    }

private:
    template <class Config>
    static __device__ __forceinline__ float* stages() {
        unsigned char* begin = scratch<Config>();
        return reinterpret_cast<float*>(begin + (0 - shared_address(begin)) % abi::kLineGroupBytes);
    }

    /// Starts the copies of a block of k, if it is one of the task's.
    template <class Config>
    static __device__ __forceinline__ void stage(const F& f, I32 b, const MatMulTile<F>& tile,
                                                 const Ranges<Config>& ranges, I32 block, U32 to) {
        const I32 k0 = block * kDepth;
        const auto left_at = [&](I32 m, I32 k) { return f.left_at(b, tile.m.begin + m, k0 + k); };
        const auto stage_whole_weights = [&] {
            for_each_number<0, F::kWeights>([&]<int J>(Number<J> j) {
                stage_whole_block<Config, Element, F::kTileColumns, F::kWeightColumn, kRowLines>(
                    to + kLeftBytes + J * kWeightBytes,
                    [&](I32 n, I32 k) { return f.weight_at(j, b, tile.n.begin + n, k0 + k); });
            });
        };
        if (ranges.has_whole(block)) {
            stage_whole_block<Config, Element, F::kTileRows, F::kLeftColumn, kRowLines>(to, left_at);
            stage_whole_weights();
        } else if (Ranges<Config>::kHasRowsByBlock && ranges.by_block && block < ranges.blocks().end) {
            const auto counts = [&](I32 round) { return ranges.has_row(block, round); };
            stage_whole_rows<Config, Element, F::kTileRows>(to, counts, left_at);
            stage_whole_weights();
        } else if (block < ranges.blocks().end) {
            stage_block<Config, Element, F::kTileRows, F::kLeftColumn, F::kLeftGrain, F::kRagged, kRowLines>(
                to, tile.rows(),
                [&](I32 round) {
                    const Depth row = ranges.rows[F::kRagged ? round : 0];
                    return Depth{row.begin - k0, row.end - k0};
                },
                left_at);
            // Where rows differ, weights beyond the range of one count for another.
            for_each_number<0, F::kWeights>([&]<int J>(Number<J> j) {
                stage_block<Config, Element, F::kTileColumns, F::kWeightColumn, F::kWeightGrain, F::kRagged,
                            kRowLines>(
                    to + kLeftBytes + J * kWeightBytes, tile.columns(),
                    [&](I32) {
                        return Depth{ranges.all.begin - k0, ranges.all.end - k0};
                    },
                    [&](I32 n, I32 k) { return f.weight_at(j, b, tile.n.begin + n, k0 + k); });
            });
        }
        commit_copies();
    }

    /// Calls beside() once the first blocks are on their way.
    template <class Config, class Sums, class Beside>
    static __device__ __forceinline__ void multiply(const F& f, I32 b, const MatMulTile<F>& tile,
                                                    Sums (&sums)[F::kWeights], const Beside& beside) {
        using Tile = Chosen<Config>;
        // A stage is written again only after the barrier that shows that nobody reads it any more.
        constexpr I32 kAhead = F::kStages - 1 - Tile::kRunning;
        const Ranges<Config> ranges(f, b, tile);
        const auto blocks = ranges.blocks();
        static_assert(kAhead >= 1);
        const U32 first = shared_address(stages<Config>());
        const U32 end = first + F::kStages * kStageBytes;
        U32 writing = first;
        U32 reading = first;
        const auto advance = [&](U32& at) { at = at + kStageBytes == end ? first : at + kStageBytes; };
        for (I32 ahead = 0; ahead < kAhead; ++ahead) {
            stage<Config>(f, b, tile, ranges, blocks.begin + ahead, writing);
            advance(writing);
        }
        beside();
#pragma unroll 1
        for (I32 block = blocks.begin; block < blocks.end; ++block) {
            wait_for_copies<kAhead - 1>();
            Tile::publish_copies();
            consumer_barrier<Config>();
            stage<Config>(f, b, tile, ranges, block + kAhead, writing);
            advance(writing);
            Tile::multiply(sums, reading, reading + kLeftBytes);
            advance(reading);
        }
        Tile::finish();
    }

    /// How the results of a task lie in shared memory, where the stages were: each warp's by row, so that its lanes store what
    /// lies together. Rows are apart by an odd multiple of 8 banks: the fragments of four rows meet in none.
    template <class Tile>
    struct Layout {
        static constexpr I32 kRows = Tile::kDown * 16;
        static constexpr I32 kColumns = Tile::kAcross * 8;
        static constexpr I32 kStride = kColumns + 8;
        static constexpr I32 kMatrix = kRows * kStride;
        static constexpr I32 kWarp = kMatrix * F::kWeights;
    };

    template <class Config, class Sums>
    static __device__ __forceinline__ void lay_out(const Sums (&sums)[F::kWeights]) {
        using Tile = Chosen<Config>;
        using Laid = Layout<Tile>;
        static_assert(Laid::kWarp * Config::kWarps * 4 <= F::kStages * kStageBytes);
        float* mine = stages<Config>() + threadIdx.x / 32 * Laid::kWarp;
        const I32 lane = threadIdx.x % 32;
        consumer_barrier<Config>();
        for_each_fragment<Tile>([&](int w, int i, int half, int j) {
            const I32 row = i * 16 + half * 8 + lane / 4;
            float* at = mine + w * Laid::kMatrix + row * Laid::kStride + j * 8 + lane % 4 * 2;
            *reinterpret_cast<float2*>(at) =
                make_float2(sums[w][i][j][half * 2], sums[w][i][j][half * 2 + 1]);
        });
        if constexpr (Tile::kShares > 1) {
            consumer_barrier<Config>();
        } else {
            __syncwarp();
        }
    }

    /// A function of its own may use the registers that the sums had.
    template <class Config>
    static __device__ __noinline__ void store_apart(const abi::Record& record, const abi::Launch& launch,
                                                    I32 b) {
        store<Config>(F{Operands(record, launch)}, b, MatMulTile<F>(record));
    }

    /// How the results of a warp are dealt to its lanes, a group of kVector to each in every round, and the rounds to the warps
    /// that share them.
    template <class Config>
    struct Rounds {
        using Tile = Chosen<Config>;
        using Laid = Layout<Tile>;
        static constexpr I32 kPerRow = Laid::kColumns / F::kVector;
        static constexpr I32 kAll = Laid::kRows * kPerRow / 32;
        static constexpr I32 kOwn = (kAll + Tile::kShares - 1) / Tile::kShares;
        static constexpr I32 kAhead = kOwn < groups_ahead<Early> ? kOwn : groups_ahead<Early>;
        static_assert(Laid::kRows * kPerRow % 32 == 0);
    };

    /// What the results of a warp load.
    template <class Config>
    struct Ends {
        using Tile = Chosen<Config>;
        using Deal = Rounds<Config>;
        Early early[Deal::kAhead]{};  // written on every path (operands.h)
        typename EarlyOf<F>::Uniform uniform{};

        __device__ __forceinline__ void load(const F& f, I32 b, const MatMulTile<F>& tile) {
            load_round(f, b, tile, Tile::share() * Deal::kAhead);
            uniform = EarlyOf<F>::uniform(f);
        }

        __device__ __forceinline__ void load_round(const F& f, I32 b, const MatMulTile<F>& tile, I32 round) {
            const I32 m0 = tile.m.begin + Tile::first_row();
            const I32 n0 = tile.n.begin + Tile::first_column();
            if (m0 >= tile.m.end || n0 >= tile.n.end) return;
#pragma unroll
            for (I32 i = 0; i < Deal::kAhead; ++i) {
                const I32 item = min((round + i) * 32, (Deal::kAll - 1) * 32) + threadIdx.x % 32;
                // No branch stands between loads: those of places that data names would wait for each other there.
                const I32 m = min(m0 + item / Deal::kPerRow, tile.m.end - 1);
                const I32 n = n0 + item % Deal::kPerRow * F::kVector;
                if constexpr (F::kRest) {
                    if (is_whole(n, tile)) early[i] = EarlyOf<F>::load(f, b, m, n);
                } else {
                    early[i] = EarlyOf<F>::load(f, b, m, min(n, tile.n.end - F::kVector));
                }
            }
        }
    };

    static __device__ __forceinline__ bool is_whole(I32 n, const MatMulTile<F>& tile) {
        return !F::kRest || n + F::kVector <= tile.n.end;
    }

    template <class Config>
    static __device__ __forceinline__ void store(const F& f, I32 b, const MatMulTile<F>& tile) {
        Ends<Config> ends;
        ends.load(f, b, tile);
        store<Config>(f, b, tile, ends);
    }

    template <class Config>
    static __device__ __forceinline__ void store(const F& f, I32 b, const MatMulTile<F>& tile,
                                                 Ends<Config>& next) {
        using Tile = Chosen<Config>;
        using Laid = Layout<Tile>;
        using Deal = Rounds<Config>;
        constexpr I32 kAhead = Deal::kAhead;
        constexpr I32 kShare = Laid::kWarp * (Config::kWarps / Tile::kShares);
        const float* first = stages<Config>() + threadIdx.x / 32 * Laid::kWarp - Tile::share() * kShare;
        const I32 m0 = tile.m.begin + Tile::first_row();
        const I32 n0 = tile.n.begin + Tile::first_column();
        // The loads of the next groups are on their way while results are computed and stored.
#pragma unroll 1
        for (I32 round = Tile::share() * kAhead; round < Deal::kAll; round += kAhead * Tile::kShares) {
            Early early[kAhead];
#pragma unroll
            for (I32 i = 0; i < kAhead; ++i) early[i] = next.early[i];
            if (round + kAhead * Tile::kShares < Deal::kAll)
                next.load_round(f, b, tile, round + kAhead * Tile::kShares);
#pragma unroll
            for (I32 i = 0; i < kAhead; ++i) {
                const I32 item = (round + i) * 32 + threadIdx.x % 32;
                const I32 row = item / Deal::kPerRow;
                const I32 column = item % Deal::kPerRow * F::kVector;
                const bool inside = m0 + row < tile.m.end && n0 + column < tile.n.end;
                if (!inside || round + i >= Deal::kAll) continue;
                const float* at = first + row * Laid::kStride + column;
                if (is_whole(n0 + column, tile)) {
                    store_group<Tile::kShares, kShare>(f, b, m0 + row, n0 + column, at, Laid::kMatrix,
                                                       early[i], next.uniform);
                } else {
#pragma unroll 1
                    for (I32 n = n0 + column; n < tile.n.end; ++n, ++at)
                        store_one<Tile::kShares, kShare>(f, b, m0 + row, n, at, Laid::kMatrix);
                }
            }
        }
    }

    template <class Tile, class Body>
    static __device__ __forceinline__ void for_each_fragment(Body&& body) {
#pragma unroll
        for (int w = 0; w < F::kWeights; ++w) {
#pragma unroll
            for (int i = 0; i < Tile::kDown; ++i) {
#pragma unroll
                for (int j = 0; j < Tile::kAcross; ++j) {
                    body(w, i, 0, j);
                    body(w, i, 1, j);
                }
            }
        }
    }

    /// Stores kVector neighbouring results; those of a weight begin at `sums`, those of the next `matrix` further, those of
    /// another warp's share of k `Distance` further.
    template <int Shares, I32 Distance>
    static __device__ __forceinline__ void store_group(const F& f, I32 b, I32 m, I32 n, const float* sums,
                                                       I32 matrix, Early& early,
                                                       const typename EarlyOf<F>::Uniform& uniform) {
        float acc[F::kWeights * F::kVector];
#pragma unroll
        for (int share = 0; share < Shares; ++share) {
#pragma unroll
            for (int w = 0; w < F::kWeights; ++w) {
                const auto vector = read_vector<F::kVector>(sums + share * Distance + w * matrix);
#pragma unroll
                for (int v = 0; v < F::kVector; ++v) {
                    float& sum = acc[w * F::kVector + v];
                    sum = share == 0 ? vector.elements[v] : sum + vector.elements[v];
                }
            }
        }
        if constexpr (F::kVector > 1) {
            f.store_vector(b, m, n, acc, nullptr, early, uniform);
        } else {
            await(f, early, [&] { return f.load(b, m, n); });
            f.store(b, m, n, acc, nullptr, early);
        }
    }

    /// The same for one result beyond the last whole group of a row.
    template <int Shares, I32 Distance>
    static __device__ __forceinline__ void store_one(const F& f, I32 b, I32 m, I32 n, const float* sums,
                                                     I32 matrix) {
        float acc[F::kWeights];
#pragma unroll
        for (int w = 0; w < F::kWeights; ++w) {
            acc[w] = sums[w * matrix];
#pragma unroll
            for (int share = 1; share < Shares; ++share) acc[w] += sums[share * Distance + w * matrix];
        }
        f.store(b, m, n, acc, nullptr, f.load(b, m, n));
    }
};

}  // namespace stretto::device
