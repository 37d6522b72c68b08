#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stretto {

/// What a value is to the columns of a product [rows, columns].
enum class StripUse : std::uint8_t {
    None,     ///< does not vary with them, and is computed as it is
    Wide,     ///< element-wise, has a dimension that runs along the columns
    Reduced,  ///< a reduction over the columns
    Summed,   ///< a product whose sums run over the columns
    Kept,     ///< a reduction or a product, of which the columns are a dimension of the result
    Picked,   ///< element-wise, reads one column of each row, which the device computes
};

struct StripValue {
    StripUse use = StripUse::None;
    /// Passes over the product's columns that have to be over before the value can be read. Computed in the last of these, if
    /// it is reduced, summed or kept; wide values in each pass that reads them.
    int after = 0;
    /// The coordinate along the columns: of the value if it is wide or kept, of the term if it is reduced, of the product's
    /// space if it is summed.
    std::size_t dim = 0;
    Expr
        expr;  ///< of the product's results themselves: the value of Wide and Picked, the term of Reduced and Kept
    ValueId
        shift;  ///< the value is the sum of exp(x - this), and this is the maximum of all x; invalid where it is not
};

struct StripUses {
    ValueId product;
    std::vector<StripValue> values;  ///< by value of the graph
    int passes = 0;
};

/// How everything that follows from a product's results depends on its columns. Nothing where they are not reduced along its
/// rows, where more than three passes would be needed, or where a reader needs them in another way than those of StripUse.
[[nodiscard]] std::optional<StripUses> strip_uses(const Graph& graph, ValueId product);

/// The coordinate of `map` that is the coordinate `dim` of a row-major value of shape `shape`, if one is.
[[nodiscard]] std::optional<std::size_t> coordinate_along(const IndexMap& map, const Shape& shape,
                                                          std::size_t dim);

}  // namespace stretto
