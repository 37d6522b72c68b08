#pragma once

#include "stretto/types.h"

/// Pairs of 16-bit elements in one register, the first in the low half.
namespace stretto::device {

/// Rounds two values to elements.
template <class T>
__device__ __forceinline__ U32 packed(float low, float high);
template <>
__device__ __forceinline__ U32 packed<BF16>(float low, float high) {
    U32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
template <>
__device__ __forceinline__ U32 packed<F16>(float low, float high) {
    U32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

template <class T>
__device__ __forceinline__ float low_of(U32 pair) {
    return widen(T{static_cast<unsigned short>(pair)});
}
template <class T>
__device__ __forceinline__ float high_of(U32 pair) {
    return widen(T{static_cast<unsigned short>(pair >> 16)});
}

/// The low (high) elements of two pairs as a pair.
__device__ __forceinline__ U32 low_elements(U32 a, U32 b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ U32 high_elements(U32 a, U32 b) { return __byte_perm(a, b, 0x7632); }

}  // namespace stretto::device
