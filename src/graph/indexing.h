#pragma once

#include <optional>
#include <vector>

#include "graph/builder.h"

namespace stretto {

/// Which dimensions of x take part in x[indices].
[[nodiscard]] std::vector<bool> indexed_dims(const Tensor& x,
                                             const std::vector<std::optional<Tensor>>& indices);

/// How x[indices] lies in the coordinates of its result.
struct Indexing {
    Shape shape;            ///< of the result
    std::size_t begin = 0;  ///< first result dimension that the index tensors span
    std::size_t count = 0;  ///< number of them
    IndexMap map;           ///< result coordinates -> x's value, without the indexed dimensions
    std::vector<Access::Indirect> indirect;
};

/// Requires: each indexed dimension of `map`, the map of x, is one unmasked digit; `spanned` is the index tensors' shape.
[[nodiscard]] Indexing indexing(const IndexMap& map, const std::vector<bool>& indexed, const Shape& spanned);

}  // namespace stretto
