#pragma once

#include "stretto/types.h"

/// Tensor-core products of one warp.
namespace stretto::device {

/// sums += A B with mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"). Lane (g, q) = (lane / 4, lane % 4) holds
/// of A: row g, k = 2q, 2q + 1 in `a.x` and k = 2q + 8, 2q + 9 in `a.z`, row g + 8 alike in `a.y` and `a.w`; of B: column g,
/// the same k in `b0` and `b1`; of the sums: columns 2q, 2q + 1 of row g in the first two, of row g + 8 in the others.
template <class T>
__device__ __forceinline__ void multiply_add_tile(float (&sums)[4], const uint4& a, U32 b0, U32 b1);

template <>
__device__ __forceinline__ void multiply_add_tile<BF16>(float (&sums)[4], const uint4& a, U32 b0, U32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply_add_tile<F16>(float (&sums)[4], const uint4& a, U32 b0, U32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

}  // namespace stretto::device
