#pragma once

#include "stretto/stream/ring.h"

namespace stretto::device {

/// Element-wise work. F::store(position) evaluates and stores every result of one position of the space.
template <class F>
struct Map {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch&,
                                                 Cursor cursor) {
        const F f{Operands(record)};
        const I32 end = record.tile[0].end;
        for (I32 at = record.tile[0].begin + static_cast<I32>(threadIdx.x); at < end;
             at += Config::kThreads) {
            f.store(at);
        }
        return cursor;
    }
};

}  // namespace stretto::device
