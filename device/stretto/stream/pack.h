#pragma once

#include "stretto/types.h"

/// Copies each load to an image of its slot: `from[i]` to `images[i]`. One CTA has one load at a time.
extern "C" __global__ void stretto_pack(const stretto::abi::Load* from, const stretto::abi::U64* images,
                                        stretto::abi::U32 count) {
    using namespace stretto::device;
    for (U32 i = blockIdx.x; i < count; i += gridDim.x) {
        const stretto::abi::Load load = from[i];
        const U32 pieces = load.row_bytes / 16;
        for (U32 at = threadIdx.x; at < load.rows * pieces; at += blockDim.x) {
            const U32 row = at / pieces;
            const U32 byte = at % pieces * 16;
            const U64 source = load.address + static_cast<U64>(row) * load.row_stride + byte;
            const U64 target = images[i] + stretto::abi::panel_row(row, load.row_bytes) + byte;
            *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
        }
    }
}
