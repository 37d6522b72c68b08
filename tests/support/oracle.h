#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace stretto {

/// The elements of one value, row-major, as doubles that hold values of its type.
using Elements = std::vector<double>;

/// Evaluates a graph node by node in double, as plainly as possible; each expression node and each value is
/// rounded to its type. Requires: `inputs` by input name; inputs of role Constant are taken from the graph.
/// Returns the elements of every value, by value id.
[[nodiscard]] std::vector<Elements> evaluate(const Graph& graph,
                                             const std::map<std::string, Elements>& inputs);

/// An operation that takes its arguments by value (all but leaves), in double.
[[nodiscard]] double apply_op(Op op, const std::vector<double>& x);

/// Conversions between elements and the bytes of a dense tensor.
[[nodiscard]] Elements from_bytes(const std::byte* bytes, std::int64_t count, DType type);
[[nodiscard]] std::vector<std::byte> to_bytes(const Elements& elements, DType type);

/// L2 distance relative to the size of `wanted`, whose square is taken as at least `least`.
[[nodiscard]] double relative_distance(const Elements& got, const Elements& wanted, double least = 0);

}  // namespace stretto
