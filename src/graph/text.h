#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/text_expr.h"

namespace stretto {

// The text form of a graph: one value after the other, then the outputs, then the bytes of constants.
//
//   %0 = input user "input_ids" : i64[1, 1]
//   %1 = input parameter "norm.weight" : bf16[576]
//   %2 = pointwise : bf16[1, 576] from "model.norm" "aten.mul.Tensor" { a0 = ...  x0 = ... }
//   %3 = reduce sum [576] : f32[1] { ... }
//   %4 = contract [1, 1, 64, 576] : bf16[1, 64] { a <access>  b <access> }
//   %5 = attention [1, 9, 1, 128, 64] scale 0.125 : bf16[...] { query ... key ... value ... mask { ... } }
//        after them, where fuse gave it one: fresh { row { ... } key { ... } value { ... } }
//   %6 = update %7 [1, 64] : bf16[128, 64] { store <access> at x3 = { ... } }
//   output %4 "logits"
//   output %6 "cache" state %7
//   bytes %8 hex "0000803f"

[[nodiscard]] std::string to_text(const Graph& graph);

/// Throws UserError. The result reads back exactly what `to_text` wrote; whether it makes sense is `check`'s business.
[[nodiscard]] Graph parse_graph(std::string_view text);

// Shared with the text form of regions.
void write(Writer& out, DType dtype, const Shape& shape);  ///< bf16[1, 576]
void read_type(Reader& in, DType& dtype, Shape& shape);
void write(Writer& out, const FreshRow& fresh, char sigil);  ///< Nothing where it is empty.
[[nodiscard]] FreshRow read_fresh_row(Reader& in, char sigil);
void write(Writer& out, const std::optional<Ragged>& ragged, char sigil);  ///< Nothing where there is none.
[[nodiscard]] std::optional<Ragged> read_ragged(Reader& in, char sigil);
inline constexpr Names<ReduceOp, 3> kReduceNames{"a reduction", {"sum", "max", "min"}};

}  // namespace stretto
