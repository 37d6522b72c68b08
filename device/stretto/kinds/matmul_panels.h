#pragma once

#include "stretto/kinds/left_side.h"
#include "stretto/tile/mma.h"

namespace stretto::device {

/// Product on tensor cores with weights that come through the ring in panels: 8 rows of one weight, cut along k into
/// pieces of abi::panel_piece. The task's loads are in the order of part (of the left side, kStaged values of k), panel,
/// piece, weight. Weights are the 8-wide side of the mma; tokens are the 16-wide side.
///
/// k is permuted inside a chunk of 32, alike on both sides: lane (g, q) = (lane / 4, lane % 4) reads the 8 neighbours
/// k = 32 c + 8 q + j of row g. One mma multiplies j = 0..3, with the tokens in rows 0..7 of its 16; another j = 4..7, with
/// the tokens in rows 8..15. So both take the same four registers of tokens as they lie in memory, where the left side
/// has j in the order 0 1 4 5 2 3 6 7, and the other rows' sums are not used. Each mma's are summed over the warp's chunks
/// in order; a warp's share is the sum of both; the shares are added in the order of warps.
/// F: as for MatMul. Requires: Left and Weight are the same 16-bit type, F::kK is a multiple of 32.
template <class F>
class MatMulPanels {
    using Acc = typename F::Acc;
    using Left = typename F::Left;
    using Early = typename F::Early;
    static constexpr I32 kRows = F::kM < 8 ? F::kM : 8;  ///< most rows of the left side of a task

    static constexpr I32 kChunkBytes = abi::kChunk * 2;
    // Chunks of k, of one piece, and of one piece that belong to one warp.
    static constexpr I32 kChunks = F::kK / abi::kChunk;
    template <class Config>
    static constexpr I32 kPieceChunks =
        static_cast<I32>(abi::panel_piece(F::kK, Config::kWarps)) / abi::kChunk;
    template <class Config>
    static constexpr I32 kPieces = (kChunks + kPieceChunks<Config> - 1) / kPieceChunks<Config>;
    /// Of a part; the last one may have fewer.
    template <class Config>
    static constexpr I32 kPartPieces =
        F::kStaged == F::kK ? kPieces<Config> : F::kStaged / abi::kChunk / kPieceChunks<Config>;
    template <class Config>
    static constexpr bool kAlike = kPieces<Config> % kPartPieces<Config> == 0;
    /// Are all pieces the same, with as many chunks for every warp?
    template <class Config>
    static constexpr bool kEven =
        kChunks % kPieceChunks<Config> == 0 && kPieceChunks<Config> % Config::kWarps == 0;
    template <class Config>
    static constexpr I32 kOwn = (kPieceChunks<Config> + Config::kWarps - 1) / Config::kWarps;
    /// Of a row of a piece, and of the last one.
    template <class Config>
    static constexpr I32 kPieceBytes = kPieceChunks<Config>* kChunkBytes;
    template <class Config>
    static constexpr I32 kLastPieceBytes = (kChunks -
                                            (kPieces<Config> - 1) * kPieceChunks<Config>)*kChunkBytes;

    /// The left side stays in registers for all panels where a warp has few chunks.
    template <class Config>
    static constexpr bool kKept = kPartPieces<Config>* kOwn<Config> <= 8;
    /// Slots that are waited for and read together, so that their latencies overlap.
    template <class Config>
    static constexpr I32 kMostTogether = Config::kSlots < 4 ? Config::kSlots : 4;
    template <class Config>
    static constexpr bool kFitsTogether =
        kAlike<Config>&& kPartPieces<Config>* F::kWeights <= kMostTogether<Config>;
    template <class Config>
    static constexpr I32 kPiecesTogether =
        kKept<Config>&& kFitsTogether<Config> ? kPartPieces<Config>
        : kAlike<Config>&& kPartPieces<Config> % 2 == 0 && 2 * F::kWeights <= kMostTogether<Config> ? 2
                                                                                                    : 1;
    template <class Config>
    static constexpr I32 kPanelsTogether =
        kPieces<Config> == 1 && 2 * F::kWeights <= kMostTogether<Config> ? 2 : 1;

    /// Floats from one row's partial sums to the next one's, and columns whose partial sums are held at one time.
    template <class Config>
    static constexpr I32 kSumRow = static_cast<I32>(abi::panel_sums(Config::kWarps));
    template <class Config>
    static constexpr I32 kColumnsAtOnce =
        static_cast<I32>(abi::panels_at_once(kRows, F::kWeights, Config::kWarps)) * abi::kPanelRows;

    static_assert(sizeof(Left) == 2 && F::kK % abi::kChunk == 0);
    static_assert(abi::kChunk == 32 && abi::kPanelRows == 8);

    /// This warp's chunks of the left side, or one of them.
    template <class Config>
    struct Fragments {
        uint4 values[kKept<Config> ? kPartPieces<Config> * kOwn<Config> : 1];
    };

public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const MatMulTile<F> tile(record);
        const LeftSide<F, Config, true> left(tile);
        for (I32 b = tile.b.begin; b < tile.b.end; ++b) {
            const Early early = load_first(f, b, tile);
            typename Side<Config>::Stats sums{};
            left.stage_part(f, b, 0, left.begin(f, b), sums);
            stamp<Config>(launch, record.task, &abi::TaskStamps::staged);
            const Fragments<Config> kept = load_kept(left, tile.rows());
            if constexpr (Side<Config>::kParts == 1) left.finish(sums);
            for (I32 n = 0; n < tile.columns(); n += kColumnsAtOnce<Config>) {
                const I32 columns = min(kColumnsAtOnce<Config>, tile.columns() - n);
                if constexpr (Side<Config>::kParts == 1) {
                    cursor = multiply<Config>(left, kept, record, launch, cursor, columns, 0, tile);
                } else {
                    cursor = multiply_parts<Config>(f, b, left, kept, sums, record, launch, cursor, tile);
                }
                consumer_barrier<Config>();
                store<Config>(f, b, tile, left, n, columns, early);
                if (n + columns < tile.columns() || b + 1 < tile.b.end) consumer_barrier<Config>();
            }
        }
        return cursor;
    }

private:
    using Sums = float[2][4];  ///< of one panel: by half of the neighbours, then as the mma has them

    template <class Config>
    using Side = LeftSide<F, Config, true>;

    /// All parts, for all columns of the task; the first one is staged. The next one is on its way meanwhile.
    template <class Config>
    static __device__ __forceinline__ Cursor multiply_parts(const F& f, I32 b, const Side<Config>& left,
                                                            Fragments<Config> kept,
                                                            typename Side<Config>::Stats& sums,
                                                            const abi::Record& record,
                                                            const abi::Launch& launch, Cursor cursor,
                                                            const MatMulTile<F>& tile) {
#pragma unroll 1
        for (I32 part = 0; part < Side<Config>::kParts; ++part) {
            const I32 next = (part + 1) * F::kStaged;
            const auto fetched = left.fetch(f, b, next);
            cursor = multiply<Config>(left, kept, record, launch, cursor, tile.columns(),
                                      part * kPartPieces<Config>, tile);
            if (next >= F::kK) break;
            consumer_barrier<Config>();
            left.stage_part(f, b, next, fetched, sums);
            kept = load_kept(left, tile.rows());
        }
        left.finish(sums);
        return cursor;
    }

    /// Calls body(own) for each chunk of a piece that is this warp's: the own-th is chunk own * kWarps + warp. `piece`
    /// is a constant where the compiler unrolls.
    template <class Config, class Body>
    static __device__ __forceinline__ void for_each_own(I32 piece, Body&& body) {
        const I32 warp = thread_here() / 32;
#pragma unroll
        for (I32 own = 0; own < kOwn<Config>; ++own) {
            const I32 left = kChunks - piece * kPieceChunks<Config> - own * Config::kWarps;
            if (kEven<Config> || left >= Config::kWarps || warp < left) body(own);
        }
    }

    /// Where this lane's part of a chunk is in a row of chunks, for the first of this warp's chunks.
    static __device__ __forceinline__ I32 own_bytes() {
        const I32 thread = thread_here();
        return thread / 32 * kChunkBytes + thread % 4 * 16;
    }

    /// This lane's part of a chunk of the left side; zero where there is no such row.
    template <class Config>
    static __device__ __forceinline__ uint4 load_left(const Side<Config>& left, I32 rows, I32 piece,
                                                      I32 own) {
        const I32 row = thread_here() % 32 / 4;
        uint4 values = make_uint4(0, 0, 0, 0);
        if (row < rows) {
            const auto* from = reinterpret_cast<const unsigned char*>(left.row(0)) +
                               row * Side<Config>::kRowBytes + own_bytes();
            values = *reinterpret_cast<const uint4*>(
                from + (piece * kPieceChunks<Config> + own * Config::kWarps) * kChunkBytes);
        }
        return values;
    }

    template <class Config>
    static __device__ __forceinline__ Fragments<Config> load_kept(const Side<Config>& left, I32 rows) {
        Fragments<Config> kept{};
        if constexpr (kKept<Config>) {
#pragma unroll
            for (I32 piece = 0; piece < kPartPieces<Config>; ++piece) {
                for_each_own<Config>(piece, [&](I32 own) {
                    kept.values[piece * kOwn<Config> + own] = load_left<Config>(left, rows, piece, own);
                });
            }
        }
        return kept;
    }

    /// Multiplies the panels of `columns` columns by the part whose first piece is `begin`, and leaves every warp's share,
    /// or adds it, in scratch memory.
    template <class Config>
    static __device__ __forceinline__ Cursor multiply(const Side<Config>& left, const Fragments<Config>& kept,
                                                      const abi::Record& record, const abi::Launch& launch,
                                                      Cursor cursor, I32 columns, I32 begin,
                                                      const MatMulTile<F>& tile) {
        constexpr I32 kPanels = kPanelsTogether<Config>;
        const I32 block = F::kWeights * tile.rows() * kSumRow<Config>;
        const I32 panels = (columns + abi::kPanelRows - 1) / abi::kPanelRows;
        Acc* out = left.rest();
        I32 panel = 0;
        if constexpr (kPanels > 1) {
#pragma unroll 1
            for (; panel + kPanels <= panels; panel += kPanels, out += kPanels * block) {
                cursor =
                    multiply_panels<kPanels, Config>(left, kept, record, launch, cursor, out, begin, tile);
            }
        }
#pragma unroll 1
        for (; panel < panels; ++panel, out += block) {
            cursor = multiply_panels<1, Config>(left, kept, record, launch, cursor, out, begin, tile);
        }
        return cursor;
    }

    template <int Panels, class Config>
    static __device__ __forceinline__ Cursor multiply_panels(const Side<Config>& left,
                                                             const Fragments<Config>& kept,
                                                             const abi::Record& record,
                                                             const abi::Launch& launch, Cursor cursor,
                                                             Acc* out, I32 begin, const MatMulTile<F>& tile) {
        Sums sums[Panels * F::kWeights] = {};
        const auto multiply_from = [&](I32 piece) {
            cursor =
                multiply_pieces<Panels, Config>(left, kept, record, launch, cursor, begin, piece, sums, tile);
        };
        if constexpr (kKept<Config>) {
#pragma unroll
            for (I32 piece = 0; piece < kPartPieces<Config>; piece += kPiecesTogether<Config>) {
                if (kAlike<Config> || begin + piece < kPieces<Config>) multiply_from(piece);
            }
        } else {
            const I32 pieces = min(kPartPieces<Config>, kPieces<Config> - begin);
#pragma unroll 1
            for (I32 piece = 0; piece < pieces; piece += kPiecesTogether<Config>) multiply_from(piece);
        }
        const I32 row = thread_here() % 32 / 4;
        if (row < tile.rows()) {
            Acc* at =
                out + row * kSumRow<Config> + thread_here() / 32 * abi::kPanelRows + thread_here() % 4 * 2;
#pragma unroll
            for (int line = 0; line < Panels * F::kWeights; ++line) {
                auto* share = reinterpret_cast<float2*>(at + line * tile.rows() * kSumRow<Config>);
                float2 sum =
                    make_float2(sums[line][0][0] + sums[line][1][2], sums[line][0][1] + sums[line][1][3]);
                if (F::kStaged < F::kK && begin > 0) sum = make_float2(share->x + sum.x, share->y + sum.y);
                *share = sum;
            }
        }
        return cursor;
    }

    /// Adds the products of the pieces that are read together, of all panels and weights: of the part that begins with
    /// piece `begin`, those from `piece` on.
    template <int Panels, class Config>
    static __device__ __forceinline__ Cursor
    multiply_pieces(const Side<Config>& left, const Fragments<Config>& kept, const abi::Record& record,
                    const abi::Launch& launch, Cursor cursor, I32 begin, I32 piece,
                    Sums (&sums)[Panels * F::kWeights], const MatMulTile<F>& tile) {
        constexpr I32 kLines = Panels * F::kWeights;
        constexpr I32 kAll = kPiecesTogether<Config> * kLines;
        // More weights than may be held at one time follow one another.
        constexpr I32 kSlots = kAll <= kMostTogether<Config> ? kAll : 1;
        const I32 row = thread_here() % 32 / 4;
#pragma unroll
        for (I32 first = 0; first < kAll; first += kSlots) {
            const unsigned char* slots[kSlots];
            Cursor at = cursor;
#pragma unroll
            for (I32 i = 0; i < kSlots; ++i) {
                const bool last = begin + piece + (first + i) / kLines + 1 == kPieces<Config>;
                slots[i] = wait_full<Config>(at, record, launch) +
                           abi::panel_row(row, last ? kLastPieceBytes<Config> : kPieceBytes<Config>) +
                           own_bytes();
                at = at.template next<Config>();
            }
#pragma unroll
            for (I32 i = 0; i < kSlots; ++i) {
                const I32 this_piece = piece + (first + i) / kLines;
                for_each_own<Config>(begin + this_piece, [&](I32 own) {
                    const uint4 weight =
                        *reinterpret_cast<const uint4*>(slots[i] + own * Config::kWarps * kChunkBytes);
                    const uint4 token = kKept<Config>
                                            ? kept.values[kKept<Config> ? this_piece * kOwn<Config> + own : 0]
                                            : load_left<Config>(left, tile.rows(), this_piece, own);
                    Sums& sum = sums[(first + i) % kLines];
                    multiply_add_tile<Left>(sum[0], token, weight.x, weight.y);
                    multiply_add_tile<Left>(sum[1], token, weight.z, weight.w);
                });
            }
            cursor = release_slots<kSlots, Config>(cursor);
        }
        return cursor;
    }

    /// The first result of this thread. All threads share a single row; of several rows each warp takes some.
    struct Place {
        I32 m;
        I32 n;

        __device__ __forceinline__ explicit Place(I32 rows)
            : m(rows == 1 ? 0 : thread_here() / 32), n(rows == 1 ? thread_here() : thread_here() % 32) {}
    };

    /// What it loads: asked for before the product, so that its latency is hidden.
    static __device__ __forceinline__ Early load_first(const F& f, I32 b, const MatMulTile<F>& tile) {
        const Place at(tile.rows());
        return at.m < tile.rows() && at.n < tile.columns()
                   ? f.load(b, tile.m.begin + at.m, tile.n.begin + at.n)
                   : Early{};
    }

    /// Adds the warps' shares of `columns` columns from column `first` of the tile on. `early` is what the thread's first
    /// result of the tile loads.
    template <class Config>
    static __device__ __forceinline__ void store(const F& f, I32 b, const MatMulTile<F>& tile,
                                                 const Side<Config>& left, I32 first, I32 columns,
                                                 const Early& early) {
        const Place begin(tile.rows());
        const I32 stride = tile.rows() == 1 ? Config::kThreads : 32;
        for (I32 m = begin.m; m < tile.rows(); m += Config::kWarps) {
            if (begin.n >= columns) break;
            const auto stats = left.template statistics<F::kStats>(f, b, m);
            for (I32 n = begin.n; n < columns; n += stride) {
                Acc acc[F::kWeights];
                add_shares<Config>(acc, left.rest(), tile.rows(), m, n);
                const bool loaded = first == 0 && m == begin.m && n == begin.n;
                const I32 row = tile.m.begin + m;
                const I32 column = tile.n.begin + first + n;
                const auto load = [&] { return f.load(b, row, column); };
                Early values = loaded ? early : load();
                await(f, values, load);
                f.store(b, row, column, acc, stats.values, values);
            }
        }
    }

    template <class Config>
    static __device__ __forceinline__ void add_shares(Acc (&acc)[F::kWeights], const Acc* sums, I32 rows,
                                                      I32 m, I32 n) {
#pragma unroll
        for (int j = 0; j < F::kWeights; ++j) {
            const I32 row = (n / abi::kPanelRows * F::kWeights + j) * rows + m;
            const Acc* shares = sums + row * kSumRow<Config> + n % abi::kPanelRows;
            acc[j] = shares[0];
#pragma unroll
            for (int warp = 1; warp < Config::kWarps; ++warp) acc[j] += shares[warp * abi::kPanelRows];
        }
    }
};

}  // namespace stretto::device
