#pragma once

#include <optional>

#include "fuse/region.h"

namespace stretto {

/// An operand of a product as it lies in memory, seen over its rows (m of the left side, n of a weight) and k.
struct PlainOperand {
    bool column = false;     ///< rows are neighbours, not values of k
    std::int64_t grain = 1;  ///< neighbours that always lie together, aligned to their size: at most 16 bytes
    bool operator==(const PlainOperand&) const = default;
};

/// Nothing where the access is masked or depends on data. `row` is the dimension of the operand's rows: 1 or 2 in a product.
[[nodiscard]] std::optional<PlainOperand> plain_operand(const Access& access, std::size_t row,
                                                        std::size_t depth = 3);

/// The left side of a product where it is a plain load of its own type; else null.
[[nodiscard]] const Access* plain_left_side(const MatMulRegion& region);

/// Do rows of one batch differ in the k that count?
[[nodiscard]] bool has_ragged_rows(const MatMulRegion& region);

/// How all weights lie in memory: of one kind, with the smallest grain; nothing where they differ.
[[nodiscard]] std::optional<PlainOperand> plain_weights(const MatMulRegion& region);

}  // namespace stretto
