#pragma once

#include <optional>

#include "graph/graph.h"

namespace stretto {

/// Do both maps, over the same coordinates, give the same places?
[[nodiscard]] bool has_same_places(const IndexMap& a, const IndexMap& b);

/// The product whose results weights come from.
struct WeightSource {
    ValueId results;  ///< [1, rows, columns]
    ValueId maximum;  ///< of each row
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t depth;
};

/// The sum over columns of weight(0, row, d, column) * matrix(0, row, d, column), as an expression over [1, rows, depth]; both
/// are over [1, rows, depth, columns], and the matrix does not move with the row. It loads ProductUse::kMixed [rows, depth],
/// the sum over columns of exp(result - maximum) * matrix. Nothing where the weight is of another form than `in_one_pass` says.
[[nodiscard]] std::optional<Expr> mixed_rows(const Expr& weight, const Access& matrix,
                                             const WeightSource& source);

}  // namespace stretto
