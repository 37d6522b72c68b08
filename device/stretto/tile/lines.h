#pragma once

#include "stretto/sync/barrier.h"

/// Blocks of an operand in shared memory, in lines of 128 bytes (abi::kLineBytes): a row's block of k in each line, or, of a
/// *column* operand, whose rows are neighbours in memory, as many rows for one k. The lines of a column operand come by
/// panel of rows, then by k. Piece p of 16 bytes of a line lies at place p ^ (line % 8), so that eight lines are read
/// without bank conflicts at one piece.
namespace stretto::device {

template <class T>
inline constexpr I32 kPieceElements = 16 / static_cast<I32>(sizeof(T));
/// Elements of a line: values of k in one block, and rows in a panel.
template <class T>
inline constexpr I32 kLineElements = abi::kLineBytes / static_cast<I32>(sizeof(T));

/// Address of a piece in a block.
__device__ __forceinline__ U32 piece_address(U32 block, I32 line, I32 piece) {
    return block + line * abi::kLineBytes + ((piece ^ (line & 7)) << 4);
}

/// Starts the copy of one piece; what is beyond its `valid` first elements becomes zero. Copies move Grain elements at a
/// time; pieces of single 2-byte elements are written at once. Whoever reads waits for cp.async first.
template <I32 Grain, class T>
__device__ __forceinline__ void copy_piece(U32 to, const T* from, I32 valid) {
    constexpr I32 kBytes = Grain * static_cast<I32>(sizeof(T));
    if constexpr (kBytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(valid * static_cast<I32>(sizeof(T)))
                     : "memory");
    } else if constexpr (kBytes >= 4) {
#pragma unroll
        for (I32 i = 0; i < kPieceElements<T>; i += Grain) {
            const I32 part = max(0, min(valid - i, Grain)) * static_cast<I32>(sizeof(T));
            asm volatile(
                "cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to + i * static_cast<I32>(sizeof(T))),
                "l"(part > 0 ? from + i : from), "n"(kBytes), "r"(part)
                : "memory");
        }
    } else {
        U32 words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const U32 low = 2 * i < valid ? from[2 * i].bits : 0;
            const U32 high = 2 * i + 1 < valid ? from[2 * i + 1].bits : 0;
            words[i] = low | high << 16;
        }
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
                     "r"(words[2]), "r"(words[3])
                     : "memory");
    }
}

/// Starts the copies of a block of `Rows` rows into shared memory at `block`; rows from `rows` and values of k from `depth`
/// on become zero. `at(row, k)` is an element's address; at(0, 0) is one that may be read. All consumer threads take part.
template <class Config, class T, I32 Rows, bool Column, I32 Grain, class At>
__device__ __forceinline__ void stage_block(U32 block, I32 rows, I32 depth, const At& at) {
    constexpr I32 kPieces = Rows * abi::kLineBytes / 16;
    constexpr I32 kRounds = (kPieces + Config::kThreads - 1) / Config::kThreads;
#pragma unroll
    for (I32 round = 0; round < kRounds; ++round) {
        const I32 number = round * Config::kThreads + static_cast<I32>(threadIdx.x);
        if (kPieces % Config::kThreads != 0 && number >= kPieces) break;
        const I32 line = number / 8;
        const I32 first = number % 8 * kPieceElements<T>;
        const I32 row = Column ? line / kLineElements<T> * kLineElements<T> + first : line;
        const I32 k = Column ? line % kLineElements<T> : first;
        const bool inside = row < rows && k < depth;
        const I32 left = Column ? rows - row : depth - k;
        const I32 valid = inside ? min(left, kPieceElements<T>) : 0;
        copy_piece<Grain>(piece_address(block, line, number % 8), inside ? at(row, k) : at(0, 0), valid);
    }
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` of this thread's last groups of copies have not landed.
template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace stretto::device
