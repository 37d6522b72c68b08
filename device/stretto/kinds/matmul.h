#pragma once

#include "stretto/kinds/left_side.h"

namespace stretto::device {

/// Product with weights that come through the ring. Row n of a weight is dealt to warp n % warps of its load; lane l
/// sums k = it * 256 + l * 8 + j in the order of it, j; a butterfly adds the lanes.
/// F: as for LeftSide, and Weight (element), kWeights, Early, load(b, m, n) giving an Early, and
/// store(b, m, n, acc, stat, early) with one acc per weight.
template <class F>
class MatMul {
    using Acc = typename F::Acc;
    using Left = typename F::Left;
    using Weight = typename F::Weight;
    using Early = typename F::Early;
    /// Rows of the left side per pass.
    static constexpr int kTokens = F::kM >= 8 ? 8 : F::kM >= 4 ? 4 : F::kM;
    /// Weights whose slots are read in one pass: they share the reads of the left side, and their sums do not wait
    /// for each other.
    template <class Config>
    static constexpr int kTogether = F::kWeights <= 4 && F::kWeights <= Config::kSlots ? F::kWeights : 1;

public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const MatMulTile<F> tile(record);
        const LeftSide<F, Config> left(tile);
        for (I32 b = tile.b.begin; b < tile.b.end; ++b) {
            const Early early = load_first_store(f, b, tile);
            left.finish(left.stage(f, b));
            stamp<Config>(launch, record.task, &abi::TaskStamps::staged);
            for (I32 n = 0; n < tile.columns(); n += record.rows_per_load) {
                const I32 count = min(record.rows_per_load, tile.columns() - n);
#pragma unroll 1
                for (int j = 0; j < F::kWeights; j += kTogether<Config>) {
                    Acc* out = left.rest() + j * tile.rows() * tile.columns() + n;
                    cursor = multiply_slots<Config>(left, record, launch, cursor, count, out, tile);
                }
            }
            consumer_barrier<Config>();
            store<Config>(f, b, tile, left, early);
            if (b + 1 < tile.b.end) consumer_barrier<Config>();
        }
        return cursor;
    }

private:
    template <class Config>
    static __device__ __forceinline__ Cursor multiply_slots(const LeftSide<F, Config>& left,
                                                            const abi::Record& record,
                                                            const abi::Launch& launch, Cursor cursor,
                                                            I32 count, Acc* out, const MatMulTile<F>& tile) {
        const Weight* slots[kTogether<Config>];
        Cursor at = cursor;
#pragma unroll
        for (int j = 0; j < kTogether<Config>; ++j) {
            slots[j] = reinterpret_cast<const Weight*>(wait_full<Config>(at, record, launch));
            at = at.template next<Config>();
        }
        multiply<Config>(left, slots, count, out, tile);
        return release_slots<kTogether<Config>, Config>(cursor);
    }

    /// This warp's share of `count` rows of each weight; two rows at a time where registers allow.
    template <class Config>
    static __device__ __forceinline__ void multiply(const LeftSide<F, Config>& left,
                                                    const Weight* const (&slots)[kTogether<Config>],
                                                    I32 count, Acc* out, const MatMulTile<F>& tile) {
        I32 row = threadIdx.x / 32;
        if constexpr (kTogether<Config> <= 2) {
            for (; row + Config::kWarps < count; row += 2 * Config::kWarps) {
                multiply_rows<2, Config>(left, slots, row, out, tile);
            }
        }
        for (; row < count; row += Config::kWarps) multiply_rows<1, Config>(left, slots, row, out, tile);
    }

    template <int Rows, class Config>
    static __device__ __forceinline__ void multiply_rows(const LeftSide<F, Config>& left,
                                                         const Weight* const (&slots)[kTogether<Config>],
                                                         I32 row, Acc* out, const MatMulTile<F>& tile) {
        constexpr int kLines = Rows * kTogether<Config>;  // weight rows in flight, by weight, then by row
        const Weight* lines[kLines];
#pragma unroll
        for (int line = 0; line < kLines; ++line) {
            lines[line] = slots[line / Rows] + (row + line % Rows * Config::kWarps) * F::kK;
        }
        for (I32 m = 0; m < tile.rows(); m += kTokens) {
            Acc acc[kLines][kTokens] = {};
            const Left* tokens[kTokens];
#pragma unroll
            for (int i = 0; i < kTokens; ++i) tokens[i] = left.row(min(m + i, tile.rows() - 1));
            dot(acc, tokens, lines);
#pragma unroll
            for (int line = 0; line < kLines; ++line) {
#pragma unroll
                for (int i = 0; i < kTokens; ++i) {
                    const Acc sum = butterfly_sum(acc[line][i]);
                    const I32 out_row = line / Rows * tile.rows() + m + i;
                    if (threadIdx.x % 32 == 0 && m + i < tile.rows()) {
                        out[out_row * tile.columns() + row + line % Rows * Config::kWarps] = sum;
                    }
                }
            }
        }
    }

    /// This lane's part of the products of all lines with all tokens.
    template <int Lines>
    static __device__ __forceinline__ void dot(Acc (&acc)[Lines][kTokens],
                                               const Left* const (&tokens)[kTokens],
                                               const Weight* const (&lines)[Lines]) {
        const I32 lane_k = threadIdx.x % 32 * 8;
        constexpr I32 kWhole = F::kK / 256 * 256;
#pragma unroll 8
        for (I32 k = 0; k < kWhole; k += 256) step(acc, tokens, lines, k + lane_k, 8);
        if constexpr (kWhole < F::kK) {
            if (kWhole + lane_k < F::kK) step(acc, tokens, lines, kWhole + lane_k, F::kK - kWhole - lane_k);
        }
    }

    template <int Lines>
    static __device__ __forceinline__ void step(Acc (&acc)[Lines][kTokens],
                                                const Left* const (&tokens)[kTokens],
                                                const Weight* const (&lines)[Lines], I32 k, I32 limit) {
        Pack<Weight> weight[Lines];
#pragma unroll
        for (int line = 0; line < Lines; ++line) weight[line].load(lines[line] + k, limit);
#pragma unroll
        for (int i = 0; i < kTokens; ++i) {
            Pack<Left> token;
            token.load(tokens[i] + k, limit);
#pragma unroll
            for (int line = 0; line < Lines; ++line) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    acc[line][i] = multiply_add(static_cast<Acc>(token.values[j]),
                                                static_cast<Acc>(weight[line].values[j]), acc[line][i]);
                }
            }
        }
    }

    /// All threads share a single row; of several rows each warp takes some.
    template <class Config>
    static __device__ __forceinline__ void store(const F& f, I32 b, const MatMulTile<F>& tile,
                                                 const LeftSide<F, Config>& left, const Early& early) {
        const bool one_row = tile.rows() == 1;
        const I32 first = one_row ? threadIdx.x : threadIdx.x % 32;
        const I32 stride = one_row ? Config::kThreads : 32;
        for (I32 m = one_row ? 0 : threadIdx.x / 32; m < tile.rows(); m += Config::kWarps) {
            const auto stats = left.template statistics<F::kStats>(f, b, m);
            for (I32 n = first; n < tile.columns(); n += stride) {
                Acc acc[F::kWeights];
#pragma unroll
                for (int j = 0; j < F::kWeights; ++j) {
                    acc[j] = left.rest()[(j * tile.rows() + m) * tile.columns() + n];
                }
                const I32 row = tile.m.begin + m;
                const I32 column = tile.n.begin + n;
                const auto load = [&] { return f.load(b, row, column); };
                Early values = one_row && n == first ? early : load();
                await(f, values, load);
                f.store(b, row, column, acc, stats.values, values);
            }
        }
    }
};

}  // namespace stretto::device
