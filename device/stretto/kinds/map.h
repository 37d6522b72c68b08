#pragma once

#include "stretto/stream/ring.h"
#include "stretto/tile/vector.h"

namespace stretto::device {

/// Element-wise work. F: Early, load(position) giving an Early whose words may be missing, and
/// store(position, early), which evaluates and stores every result of one position of the space. Where kVector is more
/// than 1, tasks have whole groups of so many positions, and load_vector and store_vector do the same for a group, with what
/// uniform() loaded once; kGathers says that they load from places that data names. Where kFew, threads have one position at
/// most: there is none to load ahead, and code that is run once should be short, since it comes from memory, too.
template <class F>
struct Map {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 begin = record.tile[0].begin + thread_here() * F::kVector;
        const I32 end = record.tile[0].end;
        if constexpr (F::Early::kWords || F::kFew) {
#pragma unroll 1
            for (I32 at = begin; at < end; at += Config::kThreads) {
                const auto load = [&] { return f.load(at); };
                auto early = load();
                await(f, early, load);
                f.store(at, early);
            }
        } else {
            store_groups<Config>(f, begin, end);
        }
        return cursor;
    }

private:
    using Early = typename EarlyOf<F>::Type;
    static constexpr int kAhead = groups_ahead<Early>;

    /// The loads of the next groups are on their way while results are computed and stored.
    template <class Config>
    static __device__ __forceinline__ void store_groups(const F& f, I32 begin, I32 end) {
        constexpr I32 kStep = Config::kThreads * F::kVector;
        const auto uniform = EarlyOf<F>::uniform(f);
        Early next[kAhead]{};  // written on every path (operands.h)
        load_groups<kStep>(f, begin, end, next);
        for (I32 at = begin; at < end; at += kAhead * kStep) {
            Early early[kAhead];
#pragma unroll
            for (int i = 0; i < kAhead; ++i) early[i] = next[i];
            load_groups<kStep>(f, at + kAhead * kStep, end, next);
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                if (at + i * kStep >= end) break;
                if constexpr (F::kVector > 1) {
                    f.store_vector(at + i * kStep, early[i], uniform);
                } else {
                    f.store(at + i * kStep, early[i]);
                }
            }
        }
    }

    /// Loads the groups from `at` on that the task has.
    template <I32 Step>
    static __device__ __forceinline__ void load_groups(const F& f, I32 at, I32 end, Early (&early)[kAhead]) {
        if (F::kGathers && at >= end) return;
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const bool inside = at + i * Step < end;
            if constexpr (F::kGathers) {
                // No branch stands between the loads of places: they would wait for each other there.
                early[i] = EarlyOf<F>::load(f, inside ? at + i * Step : at);
            } else {
                if (inside) early[i] = EarlyOf<F>::load(f, at + i * Step);
            }
        }
    }
};

/// Element-wise work whose groups begin anew with each row of kRow positions: tasks have any positions, and what is no whole
/// group of a row goes position by position. F: as for Map, with kVector more than 1.
template <class F>
struct MapRows {
    template <class Config>
    static __device__ __forceinline__ Cursor run(const abi::Record& record, const abi::Launch& launch,
                                                 Cursor cursor) {
        const F f{Operands(record, launch)};
        const I32 begin = record.tile[0].begin;
        const I32 end = record.tile[0].end;
        const I32 last = group_of(end - 1);
        const auto uniform = f.uniform();
        const auto load = [&](I32 group, Early(&early)[kAhead]) {
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                const Part part(min(group + i * Config::kThreads, last), begin, end);
                if (part.is_whole()) early[i] = f.load_vector(part.begin);
            }
        };
        Early next[kAhead]{};  // written on every path (operands.h)
        const I32 first = group_of(begin) + thread_here();
        load(first, next);
        for (I32 group = first; group <= last; group += kAhead * Config::kThreads) {
            Early early[kAhead];
#pragma unroll
            for (int i = 0; i < kAhead; ++i) early[i] = next[i];
            load(group + kAhead * Config::kThreads, next);
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                if (group + i * Config::kThreads > last) break;
                const Part part(group + i * Config::kThreads, begin, end);
                if (part.is_whole()) {
                    f.store_vector(part.begin, early[i], uniform);
                } else {
#pragma unroll 1
                    for (I32 at = part.begin; at < part.end; ++at) f.store(at, f.load(at));
                }
            }
        }
        return cursor;
    }

private:
    using Early = typename F::EarlyVector;
    static constexpr I32 kGroups = (F::kRow + F::kVector - 1) / F::kVector;  ///< of a row
    static constexpr int kAhead = groups_ahead<Early>;

    static __device__ __forceinline__ I32 group_of(I32 position) {
        return position / F::kRow * kGroups + position % F::kRow / F::kVector;
    }

    /// The positions of a group that are the task's.
    struct Part {
        I32 begin;
        I32 end;

        __device__ __forceinline__ Part(I32 group, I32 first, I32 last) {
            const I32 row = group / kGroups * F::kRow;
            const I32 at = row + group % kGroups * F::kVector;
            begin = max(at, first);
            end = min(min(at + F::kVector, row + F::kRow), last);
        }
        [[nodiscard]] __device__ __forceinline__ bool is_whole() const { return end - begin == F::kVector; }
    };
};

}  // namespace stretto::device
