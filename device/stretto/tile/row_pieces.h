#pragma once

#include "stretto/types.h"

namespace stretto::device {

/// How a row of D elements of 16 bits, a multiple of 16, is dealt to lanes, in pairs of neighbours: to four as the right side
/// of products over its elements, or to eight as the left side of products whose rows are its elements. A lane's pairs are in
/// pieces, each of which is one load.
template <class Element, int D>
struct RowPieces {
    static constexpr int kQuarter = D / 8;  ///< pairs that one of four lanes holds
    static constexpr int kEighth = D / 16;  ///< pairs that one of eight lanes holds

    /// Pairs 4c to 4c + 3 of a lane's quarter: of every 32 elements the eight from 8q on; of a last 16 elements two pairs, the
    /// four from 4q on.
    static constexpr int kQuarterPieces = (D + 31) / 32;
    [[nodiscard]] static constexpr int quarter_pairs(int c) { return c < D / 32 ? 4 : 2; }
    static __device__ __forceinline__ void load_quarter(const Element* row, I32 q, U32 (&pairs)[kQuarter]) {
#pragma unroll
        for (int c = 0; c < kQuarterPieces; ++c) {
            if (quarter_pairs(c) == 4) {
                load_four(row + c * 32 + q * 8, pairs + 4 * c);
            } else {
                load_two(row + c * 32 + q * 4, pairs + 4 * c);
            }
        }
    }

    /// Pairs of a lane's eighth: of every 64 elements the eight from 8g on; of 32 that remain the four from 4g on; of 16 that
    /// remain the two from 2g on.
    static constexpr int kEighthPieces = D / 64 + D / 32 % 2 + D / 16 % 2;
    [[nodiscard]] static constexpr int eighth_pairs(int c) {
        return c < D / 64 ? 4 : c == D / 64 && D % 64 >= 32 ? 2 : 1;
    }
    [[nodiscard]] static constexpr int eighth_begin(int c) { return c <= D / 64 ? c * 4 : D / 64 * 4 + 2; }
    /// First element of pair w of piece c.
    [[nodiscard]] static __device__ __forceinline__ I32 column(int c, int w, I32 g) {
        return eighth_begin(c) * 16 + g * 2 * eighth_pairs(c) + 2 * w;
    }
    static __device__ __forceinline__ void load_eighth(const Element* row, I32 g, U32 (&pairs)[kEighth]) {
#pragma unroll
        for (int c = 0; c < kEighthPieces; ++c) {
            const Element* at = row + column(c, 0, g);
            U32* to = pairs + eighth_begin(c);
            if (eighth_pairs(c) == 4) {
                load_four(at, to);
            } else if (eighth_pairs(c) == 2) {
                load_two(at, to);
            } else {
                to[0] = *reinterpret_cast<const U32*>(at);
            }
        }
    }

private:
    static __device__ __forceinline__ void load_four(const Element* from, U32* pairs) {
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        pairs[0] = four.x;
        pairs[1] = four.y;
        pairs[2] = four.z;
        pairs[3] = four.w;
    }
    static __device__ __forceinline__ void load_two(const Element* from, U32* pairs) {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        pairs[0] = two.x;
        pairs[1] = two.y;
    }
};

}  // namespace stretto::device
