#pragma once

#include "stretto/kinds/left_side.h"

namespace stretto::device {

/// Product with weights read from global memory, in any layout: warp w sums k = w, w + warps, … for every output, and
/// the warps' sums are added in the order of w. A chunk of outputs has its sums in scratch memory at one time.
/// F: as for MatMul, with weight(Number<j>, b, n, k) instead of Weight.
template <class F>
class MatMulDirect {
    using Acc = typename F::Acc;

public:
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const MatMulTile<F> tile(record);
        const LeftSide<F, Config> left(tile);
        const I32 outputs = tile.rows() * tile.columns();
        for (I32 b = tile.b.begin; b < tile.b.end; ++b) {
            left.finish(left.stage(f, b));
            stamp<Config>(launch, record.task, &abi::TaskStamps::staged);
            for (I32 begin = 0; begin < outputs; begin += abi::kDirectChunk) {
                const I32 count = min(abi::kDirectChunk, outputs - begin);
                sum_slices<Config>(f, b, tile, left, begin, count);
                consumer_barrier<Config>();
                store<Config>(f, b, tile, left, begin, count);
                consumer_barrier<Config>();
            }
        }
        return cursor;
    }

private:
    template <class Config>
    static __device__ __forceinline__ void sum_slices(const F& f, I32 b, const MatMulTile<F>& tile,
                                                      const LeftSide<F, Config>& left, I32 begin, I32 count) {
        const I32 warp = threadIdx.x / 32;
        for (I32 output = threadIdx.x % 32; output < count; output += 32) {
            const I32 m = (begin + output) / tile.columns();
            const I32 n = tile.n.begin + (begin + output) % tile.columns();
            const typename F::Left* row = left.row(m);
            Acc acc[F::kWeights] = {};
#pragma unroll 8
            for (I32 k = warp; k < F::kK; k += Config::kWarps) {
                const Acc a = static_cast<Acc>(widen(row[k]));
                for_each_number<0, F::kWeights>([&]<int J>(Number<J> j) {
                    acc[J] = multiply_add(a, static_cast<Acc>(f.weight(j, b, n, k)), acc[J]);
                });
            }
#pragma unroll
            for (int j = 0; j < F::kWeights; ++j)
                left.rest()[(warp * F::kWeights + j) * count + output] = acc[j];
        }
    }

    template <class Config>
    static __device__ __forceinline__ void store(const F& f, I32 b, const MatMulTile<F>& tile,
                                                 const LeftSide<F, Config>& left, I32 begin, I32 count) {
        const Acc* slices = left.rest();
        for (I32 output = threadIdx.x; output < count; output += Config::kThreads) {
            Acc acc[F::kWeights];
#pragma unroll
            for (int j = 0; j < F::kWeights; ++j) {
                acc[j] = slices[j * count + output];
#pragma unroll
                for (int warp = 1; warp < Config::kWarps; ++warp) {
                    acc[j] += slices[(warp * F::kWeights + j) * count + output];
                }
            }
            const I32 m = (begin + output) / tile.columns();
            const I32 n = tile.n.begin + (begin + output) % tile.columns();
            const auto load = [&] { return f.load(b, tile.m.begin + m, n); };
            auto early = load();
            await(f, early, load);
            const auto stats = left.template statistics<F::kStats>(f, b, m);
            f.store(b, tile.m.begin + m, n, acc, stats.values, early);
        }
    }
};

}  // namespace stretto::device
