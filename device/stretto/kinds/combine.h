#pragma once

#include "stretto/math.h"
#include "stretto/sync/words.h"
#include "stretto/tile/vector.h"

namespace stretto::device {

// How a reduction combines. `T` is the accumulator's type.
struct SumOf {
    template <class T>
    static __device__ __forceinline__ T start() {
        return 0;
    }
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a + b;
    }
};
struct MaxOf {
    template <class T>
    static __device__ __forceinline__ T start() {
        return lowest<T>();
    }
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return maximum(a, b);
    }
};
struct MinOf {
    template <class T>
    static __device__ __forceinline__ T start() {
        return infinity<T>();
    }
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return minimum(a, b);
    }
};

/// How the reductions of one pass over the terms combine, one after the other.
template <class... Combine>
struct Pass {
    static constexpr int kCount = sizeof...(Combine);
};

/// The passes of a region: each goes through the terms once, with the results of the passes before it.
template <class... Each>
struct PassList {
    static constexpr int kPasses = sizeof...(Each);
    static constexpr int kResults = (0 + ... + Each::kCount);

    /// The number of the pass's first result.
    static __device__ constexpr int first(int pass) {
        constexpr int kCounts[] = {Each::kCount...};
        int results = 0;
        for (int p = 0; p < pass; ++p) results += kCounts[p];
        return results;
    }
};

template <int N, class List>
struct ItemOf;
template <int N, template <class...> class List, class First, class... Rest>
struct ItemOf<N, List<First, Rest...>> : ItemOf<N - 1, List<Rest...>> {};
template <template <class...> class List, class First, class... Rest>
struct ItemOf<0, List<First, Rest...>> {
    using Type = First;
};

/// How many of so many rounds are on their way together: counted ahead, they leave none to go one by one.
constexpr int unrolled(I32 rounds) { return rounds < 1 ? 1 : rounds < 8 ? rounds : 8; }

/// What a lane has combined of pass P: kWidth values of each reduction.
template <class F, int P, int Width>
struct Combined {
    using Acc = typename F::Acc;
    using Reductions = typename ItemOf<P, typename F::Passes>::Type;
    static constexpr int kFirst = F::Passes::first(P);
    Acc acc[Reductions::kCount][Width];

    __device__ __forceinline__ Combined() {
        for_each([&]<class Combine, int J>(Combine, Number<J>) {
#pragma unroll
            for (int w = 0; w < Width; ++w) acc[J][w] = Combine::template start<Acc>();
        });
    }

    /// Calls body(how, Number<j>) for the reductions of the pass.
    template <class Body>
    static __device__ __forceinline__ void for_each(Body&& body) {
        for_each_number<0, Reductions::kCount>(
            [&]<int J>(Number<J> j) { body(typename ItemOf<J, Reductions>::Type{}, j); });
    }

    /// Takes the terms of V neighbours from (kept, reduced) on: into one value, or into one of each. Those of one value meet in
    /// pairs first: small terms beside a large one are lost one by one, and less so together. `held`: what is loaded.
    template <int V, class... Held>
    __device__ __forceinline__ void take(const F& f, I32 kept, I32 reduced, const Acc* results, int at = 0,
                                         const Held&... held) {
        Acc values[Reductions::kCount * V];
        f.terms(Number<P>{}, Number<V>{}, kept, reduced, results, held..., values);
        for_each([&]<class Combine, int J>(Combine combine, Number<J>) {
            constexpr int kTogether = Width == 1 ? V : 1;
            Acc* const own = values + J * V;
#pragma unroll
            for (int apart = 1; apart < kTogether; apart *= 2) {
#pragma unroll
                for (int v = 0; v < V; v += 2 * apart) own[v] = combine(own[v], own[v + apart]);
            }
#pragma unroll
            for (int v = 0; v < V; v += kTogether) {
                Acc& into = acc[J][(at + v) % Width];
                into = combine(into, own[v]);
            }
        });
    }

    /// Takes the share of a row that lane `lane` of `Lanes` has, of which several groups are on their way together.
    template <int Lanes>
    __device__ __forceinline__ void take_share(const F& f, I32 kept, I32 lane, const Acc* results) {
        constexpr I32 kWhole = F::kReduced - F::kReduced % F::kVector;  // terms of whole groups
        constexpr I32 kRound = Lanes * F::kVector;
        constexpr I32 kRounds = kWhole / kRound;  // in which all lanes have a group
        constexpr int kUnrolled = unrolled(kRounds);
#pragma unroll kUnrolled
        for (I32 round = 0; round < kRounds; ++round)
            take<F::kVector>(f, kept, round * kRound + lane * F::kVector, results);
        if constexpr (kRounds * kRound < kWhole) {
            const I32 reduced = kRounds * kRound + lane * F::kVector;
            if (reduced < kWhole) take<F::kVector>(f, kept, reduced, results);
        }
        if constexpr (kWhole < F::kReduced) {
            if (lane == kWhole / F::kVector % Lanes) {
                for (I32 reduced = kWhole; reduced < F::kReduced; ++reduced)
                    take<1>(f, kept, reduced, results);
            }
        }
    }
};

/// The share of a row that a lane of `Lanes` has. F, where kHolds: Held, what a group of kVector terms loads in every pass,
/// perhaps of words, and hold(kept, reduced), which loads it; rows are whole groups. Else each pass loads its terms anew.
template <class F, int Lanes, bool Holds = F::kHolds>
struct RowShare {
    __device__ __forceinline__ RowShare(const F&, I32, I32) {}

    template <class Sums>
    __device__ __forceinline__ void take(Sums& sums, const F& f, I32 kept, I32 lane,
                                         const typename F::Acc* results) const {
        sums.template take_share<Lanes>(f, kept, lane, results);
    }
};

template <class F, int Lanes>
class RowShare<F, Lanes, true> {
public:
    __device__ __forceinline__ RowShare(const F& f, I32 kept, I32 lane) {
        for_each_group(lane, [&](int i, I32 reduced) { held_[i] = f.hold(kept, reduced); });
        if constexpr (F::Held::kWords) await_all(f, kept, lane);
        // Else the compiler puts off loads until their values are used, and fewer are on their way together.
        __syncwarp();
    }

    template <class Sums>
    __device__ __forceinline__ void take(Sums& sums, const F& f, I32 kept, I32 lane,
                                         const typename F::Acc* results) const {
        for_each_group(lane, [&](int i, I32 reduced) {
            sums.template take<F::kVector>(f, kept, reduced, results, 0, held_[i]);
        });
    }

private:
    static constexpr I32 kStep = Lanes * F::kVector;
    static constexpr int kRounds = F::kReduced / kStep;  ///< in which all lanes have a group
    static constexpr bool kRest = kRounds * kStep < F::kReduced;

    /// Every round of polls asks for all groups that are missing.
    __device__ __forceinline__ void await_all(const F& f, I32 kept, I32 lane) {
        const U32 tag = f.words.tag();
        const auto missing = [&] {
            U32 slot = kNoneMissing;
            for_each_group(lane, [&](int i, I32) {
                if (!held_[i].ready(tag)) slot = held_[i].missing(tag);
            });
            return slot;
        };
        if (missing() == kNoneMissing) return;
        f.words.wait([&] {
            for_each_group(lane, [&](int i, I32 reduced) {
                if (!held_[i].ready(tag)) held_[i] = f.hold(kept, reduced);
            });
            return missing();
        });
    }

    /// Calls body(i, reduced) for the lane's groups.
    template <class Body>
    static __device__ __forceinline__ void for_each_group(I32 lane, Body&& body) {
#pragma unroll
        for (int i = 0; i < kRounds; ++i) body(i, i * kStep + lane * F::kVector);
        if constexpr (kRest) {
            const I32 reduced = kRounds * kStep + lane * F::kVector;
            if (reduced < F::kReduced) body(kRounds, reduced);
        }
    }

    typename F::Held held_[kRounds + (kRest ? 1 : 0)]{};  // written on every path (operands.h)
};

/// Lane `lane` of `Lanes` stores its elements of a row whose results are known. F, where kElements: groups of kStored neighbours,
/// with load_vector(kept, reduced), uniform and store_vector(kept, reduced, results, early, uniform) as for Map where kStored is
/// more than 1; load and store for what is no whole group.
template <int Lanes, class F>
__device__ __forceinline__ void store_elements(const F& f, I32 kept, I32 lane,
                                               const typename F::Acc* results) {
    if constexpr (F::kElements) {
        static_assert(!F::Early::kWords, "elements are not words");
        constexpr I32 kWhole = F::kStored > 1 ? F::kReduced - F::kReduced % F::kStored : 0;
        if constexpr (F::kStored > 1) {
            constexpr int kAhead = 2;  // groups whose loads are on their way together
            constexpr I32 kStep = Lanes * F::kStored;
            const auto uniform = f.uniform();
            for (I32 at = lane * F::kStored; at < kWhole; at += kAhead * kStep) {
                typename F::EarlyVector early[kAhead]{};  // written on every path (operands.h)
#pragma unroll
                for (int i = 0; i < kAhead; ++i) {
                    if (at + i * kStep < kWhole) early[i] = f.load_vector(kept, at + i * kStep);
                }
#pragma unroll
                for (int i = 0; i < kAhead; ++i) {
                    if (at + i * kStep >= kWhole) break;
                    f.store_vector(kept, at + i * kStep, results, early[i], uniform);
                }
            }
        }
        for (I32 at = kWhole + lane; at < F::kReduced; at += Lanes)
            f.store(kept, at, results, f.load(kept, at));
    }
}

}  // namespace stretto::device
