#pragma once

#include "stretto/stream/ring.h"

namespace stretto::device {

/// Element-wise work. F: Early, load(position) giving an Early whose words may be missing, and
/// store(position, early), which evaluates and stores every result of one position of the space.
template <class F>
struct Map {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 end = record.tile[0].end;
        for (I32 at = record.tile[0].begin + static_cast<I32>(threadIdx.x); at < end;
             at += Config::kThreads) {
            const auto load = [&] { return f.load(at); };
            auto early = load();
            await(f, early, load);
            f.store(at, early);
        }
        return cursor;
    }
};

}  // namespace stretto::device
