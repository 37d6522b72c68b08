#pragma once

#include "abi/abi.h"

/// Element types and conversions, without CUDA's own headers so that NVRTC needs no toolkit.
namespace stretto::device {

using abi::I32;
using abi::U32;
using abi::U64;
using I64 = long long;
using U8 = unsigned char;

struct BF16 {
    unsigned short bits;
};
struct F16 {
    unsigned short bits;
};

/// The type in which an expression holds an element.
template <class T>
struct ValueOf {
    using Type = T;
};
template <>
struct ValueOf<BF16> {
    using Type = float;
};
template <>
struct ValueOf<F16> {
    using Type = float;
};
template <class T>
using Value = typename ValueOf<T>::Type;

template <class T>
__device__ __forceinline__ Value<T> widen(T x) {
    return x;
}
template <>
__device__ __forceinline__ float widen(BF16 x) {
    return __uint_as_float(static_cast<U32>(x.bits) << 16);
}
template <>
__device__ __forceinline__ float widen(F16 x) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}

/// Rounds to the nearest element, ties to even.
template <class T>
__device__ __forceinline__ T narrow(Value<T> x) {
    return x;
}
template <>
__device__ __forceinline__ BF16 narrow<BF16>(float x) {
    BF16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
}
template <>
__device__ __forceinline__ F16 narrow<F16>(float x) {
    F16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
}

template <class T>
__device__ __forceinline__ float round_to(float x) {
    return widen(narrow<T>(x));
}

/// Plain loads on purpose: results of other workers become visible by acquire, which read-only loads would miss.
template <class T>
__device__ __forceinline__ Value<T> read(const T* at) {
    return widen(*at);
}
template <class T>
__device__ __forceinline__ void write(T* at, Value<T> value) {
    *at = narrow<T>(value);
}

template <int N>
struct Number {};

template <bool First, class A, class B>
struct Selected {
    using Type = A;
};
template <class A, class B>
struct Selected<false, A, B> {
    using Type = B;
};

template <int Begin, int End, class Body>
__device__ __forceinline__ void for_each_number(Body&& body) {
    if constexpr (Begin < End) {
        body(Number<Begin>{});
        for_each_number<Begin + 1, End>(body);
    }
}

/// Eight neighbouring elements, read from shared memory in 16-byte pieces.
template <class T>
struct Pack {
    static constexpr int kPieces = sizeof(T) / 2;
    static constexpr int kPerPiece = 8 / kPieces;
    Value<T> values[8];

    /// Elements from `limit` on are left out of the read and become zero; `limit` is a multiple of kPerPiece.
    __device__ __forceinline__ void load(const T* at, int limit) {
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
            uint4 raw = make_uint4(0, 0, 0, 0);
            if (piece * kPerPiece < limit) raw = *(reinterpret_cast<const uint4*>(at) + piece);
            unpack(raw, piece);
        }
    }

private:
    __device__ __forceinline__ void unpack(const uint4& raw, int piece) {
        const U32 words[4] = {raw.x, raw.y, raw.z, raw.w};
        if constexpr (sizeof(T) == 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                values[2 * i] = widen(T{static_cast<unsigned short>(words[i])});
                values[2 * i + 1] = high(words[i], T{});
            }
        } else if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (int i = 0; i < 4; ++i) values[piece * 4 + i] = __uint_as_float(words[i]);
        } else {
            values[piece * 2] = __hiloint2double(words[1], words[0]);
            values[piece * 2 + 1] = __hiloint2double(words[3], words[2]);
        }
    }
    static __device__ __forceinline__ float high(U32 word, BF16) {
        return __uint_as_float(word & 0xffff0000u);
    }
    static __device__ __forceinline__ float high(U32 word, F16) {
        return widen(F16{static_cast<unsigned short>(word >> 16)});
    }
};

}  // namespace stretto::device
