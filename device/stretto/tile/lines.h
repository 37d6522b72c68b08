#pragma once

#include "stretto/sync/barrier.h"

/// Blocks of an operand in shared memory, in lines of 128 bytes (abi::kLineBytes): a row's values of k in each line, or, of a
/// *column* operand, whose rows are neighbours in memory, as many rows for one k (of fewer rows than that, all for several
/// k). A block has as many lines as rows, or several times as many: the lines come by the k of a line, then by row; of a
/// column operand by panel of rows, then by k. Piece p of 16 bytes of a line lies at place p ^ (line % 8), so that eight
/// lines are read without bank conflicts at one piece.
namespace stretto::device {

template <class T>
inline constexpr I32 kPieceElements = 16 / static_cast<I32>(sizeof(T));
/// Elements of a line: values of k of a row, and rows in a panel.
template <class T>
inline constexpr I32 kLineElements = abi::kLineBytes / static_cast<I32>(sizeof(T));

/// Rows of one panel of a column operand, and the values of k of a line of them.
template <class T, I32 Rows>
inline constexpr I32 kLineRows = Rows < kLineElements<T> ? Rows : kLineElements<T>;
template <class T, I32 Rows>
inline constexpr I32 kLineDepth = kLineElements<T> / kLineRows<T, Rows>;

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

/// As copy_piece, for a piece whose first `skipped` elements become zero, too.
template <class T>
__device__ __forceinline__ void copy_rest_of_piece(U32 to, const T* from, I32 skipped, I32 valid) {
    U32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const auto bits = [&](I32 at) -> U32 { return at >= skipped && at < valid ? from[at].bits : 0; };
        words[i] = bits(2 * i) | bits(2 * i + 1) << 16;
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
}

/// The values of k that count, from the first of a block on: begin <= k < end.
struct Depth {
    I32 begin;
    I32 end;
};

/// Turns of the consumer threads over the pieces of so many lines, a piece each.
template <class Config, I32 Lines>
inline constexpr I32 kStageRounds = (Lines * abi::kLineBytes / 16 + Config::kThreads - 1) / Config::kThreads;

/// This thread's piece of a block in one round: its line, and the row and the k of its first element. From one round to the
/// next these move by constants, wherever the compiler unrolls.
template <class Config, class T, I32 Rows, bool Column, I32 RowLines = 1>
struct StagedPiece {
    I32 number;
    I32 line;
    I32 row;
    I32 k;

    __device__ __forceinline__ explicit StagedPiece(I32 round) {
        const I32 thread = static_cast<I32>(threadIdx.x);
        const I32 own = static_cast<I32>(threadIdx.x / 8);
        const I32 piece = static_cast<I32>(threadIdx.x % 8);
        number = round * Config::kThreads + thread;
        line = round * kLines + own;
        // Lines of one panel, or of one line of k.
        constexpr I32 kPart = Column ? RowLines * kLineElements<T> / kLineDepth<T, Rows> : Rows;
        I32 part = 0;
        I32 within = line;
        if constexpr (kPart % kLines == 0) {
            part = round * kLines / kPart;
            within = round * kLines % kPart + own;
        } else if constexpr (kLines % kPart == 0) {
            part = round * (kLines / kPart) + own / kPart;
            within = own % kPart;
        } else if constexpr (Column || RowLines > 1) {
            part = line / kPart;
            within = line % kPart;
        }
        if constexpr (Column) {
            constexpr I32 kPieces = kLineRows<T, Rows> / kPieceElements<T>;
            row = part * kLineRows<T, Rows> + piece % kPieces * kPieceElements<T>;
            k = within * kLineDepth<T, Rows> + piece / kPieces;
        } else {
            row = within;
            k = part * kLineElements<T> + piece * kPieceElements<T>;
        }
    }

    /// Its address in the block.
    [[nodiscard]] __device__ __forceinline__ U32 in(U32 block) const {
        return piece_address(block, line, static_cast<I32>(threadIdx.x % 8));
    }

private:
    static constexpr I32 kLines = Config::kThreads / 8;  ///< of one round
};

/// Calls body(round, piece) for this thread's pieces of a block of `Rows` rows.
template <class Config, class T, I32 Rows, bool Column, I32 RowLines, class Body>
__device__ __forceinline__ void for_each_piece(Body&& body) {
    constexpr I32 kPieces = Rows * RowLines * abi::kLineBytes / 16;
#pragma unroll
    for (I32 round = 0; round < kStageRounds<Config, Rows * RowLines>; ++round) {
        const StagedPiece<Config, T, Rows, Column, RowLines> piece(round);
        if (kPieces % Config::kThreads != 0 && piece.number >= kPieces) break;
        body(round, piece);
    }
}

/// Starts the copies of a block of `Rows` rows, of `RowLines` lines each, into shared memory at `block`; rows from `rows` on
/// become zero, and so do values outside of depth(round), the k that count for the thread's row in that round. Those of a
/// column operand are the same for all rows; they begin at 0 or below unless `Ragged`. `at(row, k)` is an element's address;
/// at(0, 0) is one that may be read. All consumer threads take part.
template <class Config, class T, I32 Rows, bool Column, I32 Grain, bool Ragged, I32 RowLines = 1,
          class DepthOf, class At>
__device__ __forceinline__ void stage_block(U32 block, I32 rows, const DepthOf& depth, const At& at) {
    for_each_piece<Config, T, Rows, Column, RowLines>([&](I32 round, const auto& piece) {
        const Depth counts = depth(round);
        const I32 row = piece.row;
        const I32 k = piece.k;
        const U32 to = piece.in(block);
        const bool inside = row < rows && k < counts.end && (!(Ragged && Column) || k >= counts.begin);
        const I32 left = Column ? rows - row : counts.end - k;
        const I32 valid = inside ? min(left, kPieceElements<T>) : 0;
        if constexpr (Ragged && !Column) {
            const I32 skipped = counts.begin - k;
            if (skipped > 0) {
                copy_rest_of_piece(to, valid > skipped ? at(row, k) : at(0, 0), skipped, valid);
                return;
            }
        }
        copy_piece<Grain>(to, inside ? at(row, k) : at(0, 0), valid);
    });
}

/// As stage_block, for a block all of whose rows are there and all of whose k count, in copies of 16 bytes: most blocks are
/// such, and their copies cost little more than an instruction each.
template <class Config, class T, I32 Rows, bool Column, I32 RowLines = 1, class At>
__device__ __forceinline__ void stage_whole_block(U32 block, const At& at) {
    for_each_piece<Config, T, Rows, Column, RowLines>([&](I32, const auto& piece) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(piece.in(block)),
                     "l"(at(piece.row, piece.k))
                     : "memory");
    });
}

/// As stage_whole_block, without the pieces for which `counts(piece)` does not hold: nobody reads them.
template <class Config, class T, I32 Rows, bool Column, class Counts, class At>
__device__ __forceinline__ void stage_some_pieces(U32 block, const Counts& counts, const At& at) {
    for_each_piece<Config, T, Rows, Column, 1>([&](I32, const auto& piece) {
        if (!counts(piece)) return;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(piece.in(block)),
                     "l"(at(piece.row, piece.k))
                     : "memory");
    });
}

/// As stage_whole_block, where rows for which `counts(round)` does not hold become zero.
template <class Config, class T, I32 Rows, class Counts, class At>
__device__ __forceinline__ void stage_whole_rows(U32 block, const Counts& counts, const At& at) {
    for_each_piece<Config, T, Rows, false, 1>([&](I32 round, const auto& piece) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(piece.in(block)),
                     "l"(at(piece.row, piece.k)), "r"(counts(round) ? 16 : 0)
                     : "memory");
    });
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` of this thread's last groups of copies have not landed.
template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace stretto::device
