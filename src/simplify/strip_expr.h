#pragma once

#include <vector>

#include "graph/graph.h"

namespace stretto {

/// Thrown where no list of digits expresses what is read of a strip.
struct Uncut {};

/// `map` where coordinate `dim` is in `range`, over a space that has just those positions. Throws Uncut.
[[nodiscard]] IndexMap cut(const IndexMap& map, std::size_t dim, Range range);

/// A value of shape `whole`, of which a strip has the positions of dimension `dim` that are in `range`.
struct StripOf {
    Shape whole;
    std::size_t dim = 0;
    Range range;
};

/// A map of the whole value, which stays in the strip, as a map of the strip, whose shape is `strip`. Throws Uncut.
[[nodiscard]] IndexMap map_of_strip(const IndexMap& map, const StripOf& of, const Shape& strip);

/// An expression whose space begins with `shape`, over a space without the dimensions of extent 1 of that.
[[nodiscard]] Expr without_unit_dims(Expr expr, const Shape& shape);

/// Loads a value in its own order.
std::int32_t load_whole(Expr& expr, ValueId value, const Type& type);

/// What is kept of sums of exp(x - shift), in F32. A shift of minus infinity, of a strip of nothing else, counts as the least
/// number there is, so that its exponentials are zero.
struct ShiftedSum {
    ValueId sum;
    ValueId shift;
};

/// The term exp(x - y) with `shift`, a load of type F32 over the rows, instead of y. `extents` dimensions follow those of `rows`.
[[nodiscard]] Expr shifted(const Expr& term, ValueId shift, const Shape& rows, const Shape& extents);

/// The two sums with the common shift `largest`; all are of shape `rows`.
[[nodiscard]] Expr sum_of_shifted(const ShiftedSum& a, const ShiftedSum& b, ValueId largest,
                                  const Shape& rows);

/// A part of a value along one dimension.
struct StripPiece {
    ValueId value;
    Range range;
};

/// The pieces, which follow one another along dimension `dim` of a value of type `type`, put together from the first one's
/// begin on: an expression over as many positions as they have. Pieces have that type.
[[nodiscard]] Expr put_together(const std::vector<StripPiece>& pieces, const Type& type, std::size_t dim);

}  // namespace stretto
