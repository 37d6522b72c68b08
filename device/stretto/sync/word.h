#pragma once

#include "stretto/types.h"

/// Epoch-tagged words: an element and the tag of the iteration that wrote it, stored and loaded by one memory operation. A
/// scalar access of 32 or 64 bits is one, and so is each element of a vector access (PTX ISA, "Memory Consistency Model",
/// vector data types). Relaxed order is enough because nothing but the word itself is handed over: who has seen a word knows
/// nothing about the writer's other stores.
namespace stretto::device {

/// A word in memory: 32 bits of value, 32 bits of tag. T has 16 or 32 bits.
template <class T>
struct alignas(8) Tagged {
    U64 word;
};

/// A packed word in memory: the lowest bit is the tag's lowest, the others are the value: a 16-bit float lies in the upper
/// half, F32 does without the last bit of its mantissa. T is float, BF16 or F16.
template <class T>
struct Packed {
    U32 word;
};

__device__ __forceinline__ U32 bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ U32 bits_of(I32 x) { return static_cast<U32>(x); }
__device__ __forceinline__ U32 bits_of(BF16 x) { return x.bits; }
__device__ __forceinline__ U32 bits_of(F16 x) { return x.bits; }

template <class T>
__device__ __forceinline__ T element_of(U32 bits) {
    return T{static_cast<unsigned short>(bits)};
}
template <>
__device__ __forceinline__ float element_of<float>(U32 bits) {
    return __uint_as_float(bits);
}
template <>
__device__ __forceinline__ I32 element_of<I32>(U32 bits) {
    return static_cast<I32>(bits);
}

/// A word that was loaded from memory of the type Form: its value, and bits that are zero where it has the tag `now`.
template <class Form>
struct Word;

template <class T>
struct Word<Tagged<T>> {
    U32 bits;
    U32 tag;

    [[nodiscard]] __device__ __forceinline__ Value<T> value() const { return widen(element_of<T>(bits)); }
    [[nodiscard]] __device__ __forceinline__ U32 difference(U32 now) const { return tag ^ now; }
    [[nodiscard]] __device__ __forceinline__ bool ready(U32 now) const { return difference(now) == 0; }
    /// Zero, and ready.
    [[nodiscard]] static __device__ __forceinline__ Word zero(U32 now) { return {0, now}; }
};

template <class T>
struct Word<Packed<T>> {
    U32 bits;

    [[nodiscard]] __device__ __forceinline__ float value() const {
        return widen(element_of<T>(sizeof(T) == 4 ? bits & ~abi::kPackedTag : bits >> 16));
    }
    [[nodiscard]] __device__ __forceinline__ U32 difference(U32 now) const {
        return (bits ^ now) & abi::kPackedTag;
    }
    [[nodiscard]] __device__ __forceinline__ bool ready(U32 now) const { return difference(now) == 0; }
    [[nodiscard]] static __device__ __forceinline__ Word zero(U32 now) { return {now & abi::kPackedTag}; }
};

/// The words of N neighbours.
template <class Form, int N>
struct WordVector {
    Word<Form> words[N];

    [[nodiscard]] __device__ __forceinline__ auto value(int i) const { return words[i].value(); }
    [[nodiscard]] __device__ __forceinline__ bool ready(U32 now) const {
        U32 difference = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) difference |= words[i].difference(now);
        return difference == 0;
    }
};

/// Loads a word as it is now, whatever its tag.
template <class T>
__device__ __forceinline__ Word<Tagged<T>> ask(const Tagged<T>* at) {
    Word<Tagged<T>> word;
    asm volatile("{ .reg .b64 word; ld.relaxed.gpu.global.b64 word, [%2]; mov.b64 {%0, %1}, word; }"
                 : "=r"(word.bits), "=r"(word.tag)
                 : "l"(at));
    return word;
}

template <class T>
__device__ __forceinline__ Word<Packed<T>> ask(const Packed<T>* at) {
    Word<Packed<T>> word;
    asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(word.bits) : "l"(at));
    return word;
}

/// Loads N neighbours, an even number, by accesses of 16 bytes or a single one of 8; `at` is a multiple of their size.
template <int N, class T>
__device__ __forceinline__ WordVector<Tagged<T>, N> ask_vector(const Tagged<T>* at) {
    WordVector<Tagged<T>, N> vector;
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        asm volatile(
            "{ .reg .b64 one, two; ld.relaxed.gpu.global.v2.b64 {one, two}, [%4]; mov.b64 {%0, %1}, one; "
            "mov.b64 {%2, %3}, two; }"
            : "=r"(vector.words[i].bits), "=r"(vector.words[i].tag), "=r"(vector.words[i + 1].bits),
              "=r"(vector.words[i + 1].tag)
            : "l"(at + i));
    }
    return vector;
}

template <int N, class T>
__device__ __forceinline__ WordVector<Packed<T>, N> ask_vector(const Packed<T>* at) {
    static_assert(N == 2 || N % 4 == 0);
    WordVector<Packed<T>, N> vector;
    if constexpr (N == 2) {
        asm volatile("ld.relaxed.gpu.global.v2.b32 {%0, %1}, [%2];"
                     : "=r"(vector.words[0].bits), "=r"(vector.words[1].bits)
                     : "l"(at));
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(vector.words[i].bits), "=r"(vector.words[i + 1].bits),
                           "=r"(vector.words[i + 2].bits), "=r"(vector.words[i + 3].bits)
                         : "l"(at + i));
        }
    }
    return vector;
}

/// Outside, a zero that is ready.
template <class Form>
__device__ __forceinline__ Word<Form> ask_where(bool inside, const Form* at, U32 tag) {
    Word<Form> word = Word<Form>::zero(tag);
    if (inside) word = ask(at);
    return word;
}

template <class T>
__device__ __forceinline__ void store_word(Tagged<T>* at, T element, U32 tag) {
    asm volatile(
        "{ .reg .b64 word; mov.b64 word, {%1, %2}; st.relaxed.gpu.global.b64 [%0], word; }" ::"l"(at),
        "r"(bits_of(element)), "r"(tag));
}

template <class T>
__device__ __forceinline__ void store_word(Packed<T>* at, T element, U32 tag) {
    const U32 bits = bits_of(element);
    const U32 value = sizeof(T) == 4 ? bits & ~abi::kPackedTag : bits << 16;
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(at), "r"(value | (tag & abi::kPackedTag)));
}

}  // namespace stretto::device
