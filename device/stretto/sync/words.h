#pragma once

#include "stretto/profile/stamps.h"
#include "stretto/sync/events.h"
#include "stretto/sync/word.h"

/// Hand-offs by epoch-tagged words. The writer stores an element and its tag at once and releases nothing; a reader asks for
/// the word until the tag is its own iteration's.
namespace stretto::device {

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

    /// Differs from what the iteration before left in every word, and from the zero before the first, in the lowest bit.
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

/// Waits for one word of the operand `slot`; `at` is a const Tagged<T>* or a const Packed<T>*.
template <class Form>
__device__ __forceinline__ auto read(const Form* at, const Words& words, U32 slot) {
    Word<Form> word = ask(at);
    if (!word.ready(words.tag())) {
        words.wait([&] {
            word = ask(at);
            return word.ready(words.tag()) ? kNoneMissing : slot;
        });
    }
    return word.value();
}

/// Stores an element and shows it to its readers.
template <template <class> class Form, class T>
__device__ __forceinline__ void write(Form<T>* at, Value<T> value, const Words& words) {
    store_word(at, narrow<T>(value), words.tag());
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
