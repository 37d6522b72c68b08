#pragma once

#include "stretto/kinds/scored_stages.h"

namespace stretto::device {

/// What the weights of Scored<F> have of values that all rows of a position share (F::Position), in shared memory: those of a
/// turn of positions, and while it is used, those of the next. Threads load one position each and put it down after the
/// turn, so that nobody waits for the load.
template <class F, class Config>
class ScoredPositions {
    using Stages = ScoredStages<F, Config>;
    using Task = typename Stages::Task;
    using Position = typename F::Position;
    static constexpr bool kStaged = !__is_empty(Position) && sizeof(Position) <= abi::kScoredPositionBytes;
    static_assert(Stages::kTurn <= Config::kThreads);

public:
    /// Starts to load the values of the turn from `c` on, as far as the task has it.
    __device__ __forceinline__ void load(const F& f, const Task& task, I32 c) {
        if constexpr (kStaged) {
            if (thread_here() < Stages::kTurn)
                next_ = f.position_values(task.b, min(c + thread_here(), task.end - 1));
        }
    }
    /// Puts down what was loaded: after the next barrier these are the values.
    __device__ __forceinline__ void put() {
        if constexpr (kStaged) {
            if (thread_here() < Stages::kTurn) values(turn_ ^ 1)[thread_here()] = next_;
            turn_ ^= 1;
        }
    }

    /// The values of position `at` of the block of this warp's turn that begins at `c`, and of the next.
    struct Pair {
        Position of[2];
    };
    [[nodiscard]] __device__ __forceinline__ Pair pair(const F& f, const Task& task, I32 c, I32 at) const {
        Pair pair{};
        if constexpr (kStaged) {
            const Position* from = values(turn_) + Stages::turn_block() * abi::kScoredBlock + at;
            memcpy(&pair, __builtin_assume_aligned(from, 8), sizeof(pair));
        } else if constexpr (!__is_empty(Position)) {
#pragma unroll
            for (int i = 0; i < 2; ++i)
                pair.of[i] = f.position_values(task.b, min(c + at + i, F::kContext - 1));
        }
        return pair;
    }

private:
    static __device__ __forceinline__ Position* values(I32 turn) {
        U8* begin = Stages::stages() + F::kStages * Stages::kBytes;
        return reinterpret_cast<Position*>(begin) + turn * Stages::kTurn;
    }

    Position next_{};
    I32 turn_ = 1;  ///< of two: the one whose values are used
};

}  // namespace stretto::device
