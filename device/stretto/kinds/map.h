#pragma once

#include "stretto/stream/ring.h"
#include "stretto/tile/vector.h"

namespace stretto::device {

/// Element-wise work. F: Early, load(position) giving an Early whose words may be missing, and
/// store(position, early), which evaluates and stores every result of one position of the space. Where kVector is more
/// than 1, tasks have whole groups of so many positions, and load_vector and store_vector do the same for a group.
template <class F>
struct Map {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 begin = record.tile[0].begin + thread_here() * F::kVector;
        const I32 end = record.tile[0].end;
        if constexpr (F::Early::kWords) {
            for (I32 at = begin; at < end; at += Config::kThreads) {
                const auto load = [&] { return f.load(at); };
                auto early = load();
                await(f, early, load);
                f.store(at, early);
            }
        } else {
            for (I32 at = begin; at < end; at += kAhead * Config::kThreads * F::kVector)
                store_groups<Config>(f, at, end);
        }
        return cursor;
    }

private:
    using Early = typename EarlyOf<F>::Type;

    /// What one position, or one group, loads.
    static __device__ __forceinline__ Early load(const F& f, I32 at) {
        if constexpr (F::kVector > 1) {
            return f.load_vector(at);
        } else {
            return f.load(at);
        }
    }

    /// Groups whose loads are on their way together: as many as registers hold.
    static constexpr int kMost = F::kVector > 1 ? 2 : 4;
    static constexpr int kFits = 192 / static_cast<int>(sizeof(Early));
    static constexpr int kAhead = kFits < 1 ? 1 : kFits < kMost ? kFits : kMost;

    template <class Config>
    static __device__ __forceinline__ void store_groups(const F& f, I32 at, I32 end) {
        constexpr I32 kStep = Config::kThreads * F::kVector;
        Early early[kAhead]{};  // written on every path (operands.h)
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            if (at + i * kStep < end) early[i] = load(f, at + i * kStep);
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            if (at + i * kStep >= end) break;
            if constexpr (F::kVector > 1) {
                f.store_vector(at + i * kStep, early[i]);
            } else {
                f.store(at + i * kStep, early[i]);
            }
        }
    }
};

}  // namespace stretto::device
