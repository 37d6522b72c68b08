#pragma once

#include <functional>
#include <optional>

#include "graph/expr.h"

namespace stretto {

/// What replaces the loads of one source: an expression over the coordinates of a row-major value of shape `shape`.
struct Producer {
    const Expr* expr = nullptr;
    Shape shape;
};

/// `consumer` with every load of a source for which `producer_of` returns a producer replaced by the producer's
/// expression at the loaded coordinate. Not repeated on what was inlined. Empty, with `*failed` naming the source,
/// where the consumer's view of a source cannot be expressed over the producer's coordinates.
[[nodiscard]] std::optional<Expr> inlined(
    const Expr& consumer, const std::function<std::optional<Producer>(std::int32_t)>& producer_of,
    std::int32_t* failed);

/// `expr` evaluated at the coordinate that `outer` names in a row-major value of shape `shape`: an expression over
/// outer's iteration space.
[[nodiscard]] std::optional<Expr> through_view(const Expr& expr, const IndexMap& outer, const Shape& shape);

/// The access that a view `outer` of a value makes of the value's bare load `inner`.
[[nodiscard]] std::optional<Access> through_view(const Access& inner, const IndexMap& outer,
                                                 const Shape& shape);

/// Does `map` visit the elements of a dense value of `count` elements once each, in row-major order?
[[nodiscard]] bool is_linear_identity(const IndexMap& map, std::int64_t count);

}  // namespace stretto
