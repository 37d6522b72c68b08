#pragma once

#include "stretto/types.h"

/// Tensor-core products of one warp.
namespace stretto::device {

/// sums += A B with mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"), where rows 8..15 of A are zero.
/// Lane (g, q) holds of A: row g, k = 2q, 2q + 1 in `a0` and k = 2q + 8, 2q + 9 in `a1`; of B: column g, the same k in
/// `b0` and `b1`; of the sums: row g, columns 2q, 2q + 1 in the first two.
template <class T>
__device__ __forceinline__ void multiply_add_tile(float (&sums)[4], U32 a0, U32 a1, U32 b0, U32 b1);

template <>
__device__ __forceinline__ void multiply_add_tile<BF16>(float (&sums)[4], U32 a0, U32 a1, U32 b0, U32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %8, %5, %8}, {%6, %7}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1), "r"(0));
}

template <>
__device__ __forceinline__ void multiply_add_tile<F16>(float (&sums)[4], U32 a0, U32 a1, U32 b0, U32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %8, %5, %8}, {%6, %7}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1), "r"(0));
}

}  // namespace stretto::device
