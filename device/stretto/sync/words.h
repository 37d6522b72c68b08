#pragma once

#include "stretto/profile/stamps.h"
#include "stretto/sync/events.h"

/// Hand-offs by epoch-tagged words. An element lies in one 8-byte word beside the tag of the iteration that wrote it. The
/// writer stores both at once and releases nothing; a reader asks for the word until the tag is its own iteration's. A scalar
/// access of 64 bits is a single memory operation, a vector access is not (PTX ISA, "Memory Consistency Model", vector
/// data types), so words are moved as b64. Relaxed order is enough because nothing but the word itself is handed over:
/// who has seen a word knows nothing about the writer's other stores.
namespace stretto::device {

/// An element of a tagged buffer in memory. T has 16 or 32 bits.
template <class T>
struct alignas(8) Tagged {
    U64 word;
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

/// A word that was loaded.
template <class T>
struct Word {
    U32 bits;
    U32 tag;

    [[nodiscard]] __device__ __forceinline__ Value<T> value() const { return widen(element_of<T>(bits)); }
    [[nodiscard]] __device__ __forceinline__ bool ready(U32 now) const { return tag == now; }
};

/// Loads a word as it is now, whatever its tag.
template <class T>
__device__ __forceinline__ Word<T> ask(const Tagged<T>* at) {
    Word<T> word;
    asm volatile("{ .reg .b64 word; ld.relaxed.gpu.global.b64 word, [%2]; mov.b64 {%0, %1}, word; }"
                 : "=r"(word.bits), "=r"(word.tag)
                 : "l"(at));
    return word;
}

/// The words of N neighbours.
template <class T, int N>
struct WordVector {
    Word<T> words[N];

    [[nodiscard]] __device__ __forceinline__ Value<T> value(int i) const { return words[i].value(); }
    [[nodiscard]] __device__ __forceinline__ bool ready(U32 now) const {
        bool all = true;
#pragma unroll
        for (int i = 0; i < N; ++i) all &= words[i].ready(now);
        return all;
    }
};

/// Loads them two at a time: each word is a memory operation of its own (PTX ISA, "Memory Consistency Model", vector data
/// types). N is even, and `at` a multiple of 16 bytes.
template <int N, class T>
__device__ __forceinline__ WordVector<T, N> ask_vector(const Tagged<T>* at) {
    WordVector<T, N> vector;
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

/// Outside, a zero that is ready.
template <class T>
__device__ __forceinline__ Word<T> ask_where(bool inside, const Tagged<T>* at, U32 tag) {
    Word<T> word{0, tag};
    if (inside) word = ask(at);
    return word;
}

/// What `missing` returns where every word is ready; else it is an operand slot.
inline constexpr U32 kNoneMissing = ~0u;

/// The words of one task: the tag of its iteration, and what to do where a word does not come.
class Words {
public:
    /// `given_up` becomes nonzero where a wait is given up; the task then runs on with wrong values to its end, where all
    /// warps leave together.
    __device__ __forceinline__ Words(const abi::Launch& launch, const abi::Record& record, U32 tag,
                                     U32& given_up)
        : launch_(launch), record_(record), tag_(tag), given_up_(given_up) {}

    /// Differs from what the iteration before left in every word, and from the zero before the first.
    [[nodiscard]] __device__ __forceinline__ U32 tag() const { return tag_; }

    /// Polls until nothing is missing. `poll` asks again for what was not ready, all at once, and returns the operand
    /// slot of a word that still is not, or kNoneMissing.
    template <class Poll>
    __device__ __forceinline__ void wait(Poll&& poll) const {
        Patience patience(launch_, launch_.timeout_ns);
        for (U32 missing = poll(); missing != kNoneMissing; missing = poll()) {
            if (patience.over({record_.task, abi::kWordEvent, missing, tag_})) {
                given_up_ = 1;
                return;
            }
        }
        stamp_polled(launch_, record_.task);
    }

private:
    const abi::Launch& launch_;
    const abi::Record& record_;
    U32 tag_;
    U32& given_up_;
};

/// Waits for one word of the operand `slot`.
template <class T>
__device__ __forceinline__ Value<T> read(const Tagged<T>* at, const Words& words, U32 slot) {
    Word<T> word = ask(at);
    if (word.tag != words.tag()) {
        words.wait([&] {
            word = ask(at);
            return word.tag == words.tag() ? kNoneMissing : slot;
        });
    }
    return word.value();
}

/// Stores an element and shows it to its readers.
template <class T>
__device__ __forceinline__ void write(Tagged<T>* at, Value<T> value, const Words& words) {
    asm volatile(
        "{ .reg .b64 word; mov.b64 word, {%1, %2}; st.relaxed.gpu.global.b64 [%0], word; }" ::"l"(at),
        "r"(bits_of(narrow<T>(value))), "r"(words.tag()));
}

/// Makes what was loaded ahead ready: `load` gives all of `loaded` anew.
template <class F, class Loaded, class Load>
__device__ __forceinline__ void await(const F& f, Loaded& loaded, Load&& load) {
    if constexpr (Loaded::kWords) {
        if (loaded.ready(f.words.tag())) return;
        f.words.wait([&] {
            loaded = load();
            return loaded.missing(f.words.tag());
        });
    }
}

}  // namespace stretto::device
