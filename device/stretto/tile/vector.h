#pragma once

#include "stretto/types.h"

/// Neighbouring elements that move in one access.
namespace stretto::device {

template <int Bytes>
struct Piece {
    using Type = uint4;
};
template <>
struct Piece<8> {
    using Type = uint2;
};
template <>
struct Piece<4> {
    using Type = U32;
};
template <>
struct Piece<2> {
    using Type = unsigned short;
};

template <class T, int N, bool Pairs = sizeof(T) == 2 && N % 2 == 0>
struct Vector {
    static constexpr int kBytes = N * static_cast<int>(sizeof(T));
    using Pieces = typename Piece<kBytes>::Type;  ///< 16 bytes each where they are more
    static constexpr int kPieces = kBytes / static_cast<int>(sizeof(Pieces));
    alignas(sizeof(Pieces)) T elements[N];

    [[nodiscard]] __device__ __forceinline__ Value<T> value(int i) const { return widen(elements[i]); }
    __device__ __forceinline__ void set(int i, Value<T> x) { elements[i] = narrow<T>(x); }
};

/// Two elements share a register, also where they wait for their use.
template <class T, int N>
struct Vector<T, N, true> {
    static constexpr int kBytes = N * 2;
    using Pieces = typename Piece<kBytes>::Type;
    static constexpr int kPieces = kBytes / static_cast<int>(sizeof(Pieces));
    alignas(sizeof(Pieces)) U32 pairs[N / 2];

    [[nodiscard]] __device__ __forceinline__ Value<T> value(int i) const {
        return widen(T{static_cast<unsigned short>(pairs[i / 2] >> i % 2 * 16)});
    }
    __device__ __forceinline__ void set(int i, Value<T> x) {
        const U32 bits = narrow<T>(x).bits;
        pairs[i / 2] = i % 2 == 0 ? bits : (pairs[i / 2] & 0xffff) | bits << 16;
    }
};

/// Plain loads, as `read`. `at` is aligned to the vector's size, or to 16 bytes.
template <int N, class T>
[[nodiscard]] __device__ __forceinline__ Vector<T, N> read_vector(const T* at) {
    using Pieces = typename Vector<T, N>::Pieces;
    Vector<T, N> vector;
#pragma unroll
    for (int i = 0; i < Vector<T, N>::kPieces; ++i) {
        const Pieces piece = reinterpret_cast<const Pieces*>(at)[i];
        memcpy(reinterpret_cast<char*>(&vector) + i * sizeof(Pieces), &piece, sizeof(Pieces));
    }
    return vector;
}

/// As read_vector, 16 bytes that no task of the launch writes and each iteration reads once: they must not push what others
/// read again out of the caches.
template <int N, class T>
[[nodiscard]] __device__ __forceinline__ Vector<T, N> read_once(const T* at) {
    static_assert(Vector<T, N>::kBytes == 16);
    U64 once;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    uint4 piece;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
                 : "l"(at), "l"(once));
    Vector<T, N> vector;
    memcpy(&vector, &piece, sizeof(piece));
    return vector;
}

template <int N, class T>
__device__ __forceinline__ void write_vector(T* at, const Vector<T, N>& vector) {
    using Pieces = typename Vector<T, N>::Pieces;
#pragma unroll
    for (int i = 0; i < Vector<T, N>::kPieces; ++i) {
        Pieces piece;
        memcpy(&piece, reinterpret_cast<const char*>(&vector) + i * sizeof(Pieces), sizeof(Pieces));
        reinterpret_cast<Pieces*>(at)[i] = piece;
    }
}

/// Groups whose loads are on their way together, while as many others are computed: as many as registers hold.
template <class Early>
inline constexpr int groups_ahead = [] {
    constexpr int kMost = 4;
    constexpr int kFit = 192 / static_cast<int>(sizeof(Early));
    return kFit < 1 ? 1 : kFit < kMost ? kFit : kMost;
}();

/// What a kind's functor loads ahead of its use, for one position, or for a group of kVector; and once a task, because it is
/// the same for all groups (the compiler cannot know: it loads again what may have been stored to).
template <class F, bool = (F::kVector > 1)>
struct EarlyOf {
    using Type = typename F::EarlyVector;
    using Uniform = typename F::Uniform;
    template <class... At>
    static __device__ __forceinline__ Type load(const F& f, At... at) {
        return f.load_vector(at...);
    }
    static __device__ __forceinline__ Uniform uniform(const F& f) { return f.uniform(); }
};
template <class F>
struct EarlyOf<F, false> {
    using Type = typename F::Early;
    struct Uniform {};
    template <class... At>
    static __device__ __forceinline__ Type load(const F& f, At... at) {
        return f.load(at...);
    }
    static __device__ __forceinline__ Uniform uniform(const F&) { return {}; }
};

}  // namespace stretto::device
