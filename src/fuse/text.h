#pragma once

#include <string>
#include <string_view>

#include "fuse/region.h"
#include "graph/text.h"

namespace stretto {

// The text form of regions: the buffers, then the regions in program order. Accesses, expressions and stores are
// written as in graph/text_expr.h, over buffers.
//
//   buffer b0 = parameter "norm.weight" : bf16[576]
//   buffer b1 = constant "one" : f32[1] hex "0000803f"
//   region r0 = map [1, 576] "norm#1" { store b2 : bf16 [1:0, 576:1] = { ... } }
//   region r1 = reduce [8, 576] kept 1 "sum#2" { sum { ... }  store ... }
//   region r2 = matmul [1, 1, 64, 576] bf16 streamed "proj#3" {
//       stat { ... } finish { ... }
//       a { ... }
//       weight b0 : bf16 [1:0, 1:0, 64:576, 576:1]
//       store b3 : bf16 [1:0, 1:0, 64:1] = { ... }
//   }
//   region r3 = attention [1, 9, 1, 128, 64] group 3 splits 4 scale 0.125 "attn#4" {
//       query { ... }  key <access>  value <access>  fresh { row { ... } key { ... } value { ... } }
//       mask { ... }  length { ... }  out <access>
//   }
//   region r4 = scored sum [12, 1024, 64, 1024, 64] band -1023..1 tiles 64 x 128 stages 3 "mix#5" {
//       left <access>  right <access>  (for each score)  weight { ... }  factor <access>  (for each sum)
//       store ...  rows  store ...
//   }

[[nodiscard]] std::string to_text(const RegionGraph& graph);

/// Throws UserError. Reads back exactly what `to_text` wrote; ids and sizes are not judged.
[[nodiscard]] RegionGraph parse_region_graph(std::string_view text);

// Parts of larger text forms.
void write(Writer& out, const RegionGraph& graph);
[[nodiscard]] RegionGraph read_region_graph(Reader& in);

}  // namespace stretto
