#pragma once

#include <string>
#include <string_view>

#include "base/text.h"
#include "graph/expr.h"

namespace stretto {

// The text form of index maps, accesses and expressions.
//
//   map         [1:0, (4:64, 2:0), 12:1{3..9}] + 576
//               one entry per dimension; a digit is extent:stride{unmasked range}; then the offset where it is not 0
//   access      b5 : bf16 [1:0, 576:1] indirect 49152:576
//               source, element type, map, and extent:stride of each indirect coordinate
//   expression  { a0 = b5 : bf16 [576:1]   accesses
//                 x0 = load a0 : bf16      nodes: operation, arguments, type
//                 x1 = cast x0 : f32 }     the last one is the result
//
// `sigil` says what a source is: '%' a value of a Graph, 'b' a buffer of a RegionGraph.
// Readers throw UserError. They guarantee that expressions are not empty and in topological order, and that arguments
// and accesses exist; they do not judge extents, strides, sources or types.

inline constexpr char kValueSigil = '%';
inline constexpr char kBufferSigil = 'b';

void write(Writer& out, const IndexMap& map);
void write(Writer& out, const Access& access, char sigil);
void write(Writer& out, const Expr& expr, char sigil);  ///< Starts with " {".  Requires: not empty.

[[nodiscard]] IndexMap read_index_map(Reader& in);
[[nodiscard]] Access read_access(Reader& in, char sigil);
[[nodiscard]] Expr read_expr(Reader& in, char sigil);
[[nodiscard]] DType read_dtype(Reader& in);

/// "access", then " at x3 x5" where it has indirect coordinates, given by these nodes of the expression that follows.
void write_target(Writer& out, const Access& target, const std::vector<std::int32_t>& indices,
                  const Expr& expr, char sigil);
void read_target(Reader& in, Access& target, std::vector<std::int32_t>& indices, Expr& expr, char sigil);

[[nodiscard]] std::string to_text(const IndexMap& map);
[[nodiscard]] std::string to_text(const Access& access, char sigil = kValueSigil);
[[nodiscard]] std::string to_text(const Expr& expr, char sigil = kValueSigil);
[[nodiscard]] IndexMap parse_index_map(std::string_view text);
[[nodiscard]] Expr parse_expr(std::string_view text, char sigil = kValueSigil);

}  // namespace stretto
